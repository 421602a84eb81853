/* floor relay|store PORT PATH LENGTH MOUNTPOINT FILE
 *
 * What a first read costs on this machine without a cache's logic: one sequential read, once, of one file of one
 * origin on loopback, answered from a ring of 12 MiB. `relay` receives, answers, and makes the kernel forget what is
 * behind the reader, so that its pages are used again. `store` also takes a checksum of each MiB and writes FILE past
 * the page cache. No ranges, no errors mended, no second reader; whatever is unexpected ends it.
 */
#define _GNU_SOURCE
#define FUSE_USE_VERSION 312

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <xxhash.h>

enum { FILM = 2, WORKERS = 4 };
static const uint64_t MIB = 1 << 20, PART = 256 << 10, RUN = 2 << 20, RING = 12 << 20;
/* Requests come up to a readahead window out of order, and are still answered from the ring. */
static const uint64_t BEHIND = 2 << 20;

static struct {
    int stores, port;
    const char *path, *file;
    uint64_t length;
} task;
static struct fuse_session *session;
static char *ring;
static _Atomic uint64_t checksums;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static uint64_t received, answered, written;

static void check(int holds, const char *what) {
    if (!holds) {
        perror(what);
        exit(1);
    }
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void wait_for(uint64_t *position, uint64_t least_wanted) {
    pthread_mutex_lock(&mutex);
    while (*position < least_wanted) pthread_cond_wait(&moved, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void advance(uint64_t *position, uint64_t to) {
    pthread_mutex_lock(&mutex);
    if (*position < to) *position = to;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&mutex);
}

static int ask(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(task.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(connect(connection, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    dprintf(connection, "GET %s HTTP/1.0\r\n\r\n", task.path);
    for (int ends = 0; ends < 4;) {
        char byte;
        check(recv(connection, &byte, 1, 0) == 1, "head");
        ends = byte == "\r\n\r\n"[ends] ? ends + 1 : byte == '\r';
    }
    return connection;
}

static void *receive(void *unused) {
    int connection = ask();
    XXH3_state_t *state = XXH3_createState();
    XXH3_64bits_reset(state);
    for (uint64_t at = 0; at < task.length;) {
        uint64_t room = RING - BEHIND - PART;
        wait_for(&answered, at > room ? at - room : 0);
        if (task.stores) wait_for(&written, at > room ? at - room : 0);
        uint64_t end = least(at + PART, task.length);
        while (at < end) {
            char *to = ring + at % RING;
            ssize_t count = recv(connection, to, end - at, 0);
            check(count > 0, "body");
            if (task.stores) XXH3_64bits_update(state, to, count);
            at += count;
        }
        if (task.stores && at % MIB == 0) {
            checksums += XXH3_64bits_digest(state);
            XXH3_64bits_reset(state);
        }
        advance(&received, at);
    }
    XXH3_freeState(state);
    close(connection);
    return unused;
}

static void *store(void *unused) {
    int file = open(task.file, O_CREAT | O_TRUNC | O_WRONLY | O_DIRECT | O_CLOEXEC, 0600);
    check(file >= 0, task.file);
    for (uint64_t at = 0; at < task.length; at += RUN) {
        wait_for(&received, at + RUN);
        check(pwrite(file, ring + at % RING, RUN, at) == (ssize_t)RUN, "write");
        advance(&written, at + RUN);
    }
    close(file);
    return unused;
}

static void *forget(void *unused) {
    const uint64_t step = 4 * MIB;
    for (uint64_t at = 0; at + 2 * step < task.length; at += step) {
        wait_for(&answered, at + 2 * step);
        fuse_lowlevel_notify_inval_inode(session, FILM, at, step);
    }
    return unused;
}

static void start(void *(*body)(void *)) {
    pthread_t thread;
    check(pthread_create(&thread, NULL, body, NULL) == 0, "thread");
    pthread_detach(thread);
}

static struct stat attributes(fuse_ino_t inode) {
    if (inode != FILM) return (struct stat){.st_ino = inode, .st_mode = S_IFDIR | 0755, .st_nlink = 1};
    return (struct stat){.st_ino = inode, .st_mode = S_IFREG | 0444, .st_nlink = 1, .st_size = task.length};
}

static void take_init(void *unused, struct fuse_conn_info *connection) { connection->max_readahead = MIB; }

static void take_lookup(fuse_req_t request, fuse_ino_t parent, const char *name) {
    struct fuse_entry_param entry = {.ino = FILM, .attr = attributes(FILM), .attr_timeout = 60, .entry_timeout = 60};
    if (strcmp(name, "film.bin") == 0) fuse_reply_entry(request, &entry);
    else fuse_reply_err(request, ENOENT);
}

static void take_getattr(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *file) {
    struct stat found = attributes(inode);
    fuse_reply_attr(request, &found, 60);
}

static void take_open(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *file) {
    static atomic_flag opened = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&opened)) {
        fuse_reply_err(request, EBUSY);
        return;
    }
    start(receive);
    start(forget);
    if (task.stores) start(store);
    fuse_reply_open(request, file);
}

static void take_read(fuse_req_t request, fuse_ino_t inode, size_t size, off_t at, struct fuse_file_info *file) {
    uint64_t end = least(at + size, task.length), from = at % RING, first = least(end - at, RING - from);
    wait_for(&received, end);
    struct iovec parts[] = {{ring + from, first}, {ring, end - at - first}};
    fuse_reply_iov(request, parts, parts[1].iov_len ? 2 : 1);
    advance(&answered, end);
}

static void *work(void *unused) {
    struct fuse_buf buffer = {0};
    while (!fuse_session_exited(session)) {
        int count = fuse_session_receive_buf(session, &buffer);
        if (count == -EINTR) continue;
        if (count <= 0) break;
        fuse_session_process_buf(session, &buffer);
    }
    free(buffer.mem);
    return unused;
}

int main(int count, char **words) {
    if (count != 7 || strtoull(words[4], NULL, 10) % RUN) return 2;
    task.stores = strcmp(words[1], "store") == 0;
    task.port = atoi(words[2]);
    task.path = words[3];
    task.length = strtoull(words[4], NULL, 10);
    task.file = words[6];
    check(posix_memalign((void **)&ring, RUN, RING) == 0, "memory");
    memset(ring, 0, RING);

    char *options[] = {"floor", "-o", "ro,fsname=floor"};
    struct fuse_args arguments = FUSE_ARGS_INIT(3, options);
    struct fuse_lowlevel_ops operations = {
        .init = take_init, .lookup = take_lookup, .getattr = take_getattr, .open = take_open, .read = take_read};
    session = fuse_session_new(&arguments, &operations, sizeof operations, NULL);
    check(session && fuse_session_mount(session, words[5]) == 0, words[5]);
    pthread_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) check(pthread_create(&workers[i], NULL, work, NULL) == 0, "thread");
    for (int i = 0; i < WORKERS; i++) pthread_join(workers[i], NULL);
    fuse_session_unmount(session);
    return 0;
}
