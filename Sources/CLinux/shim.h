#pragma once
// Linux calls and constants that Glibc's Swift module lacks, because their headers hide them behind _GNU_SOURCE.

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// fallocate(2): only declared with _GNU_SOURCE.
extern int fallocate(int fd, int mode, long offset, long length);
static inline int reel_punch_hole(int fd, long offset, long length) {
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length);
}

// prctl(2): variadic in C. No core dump of this process, and no debugger of the same user: it holds a key.
static inline int reel_forbid_dumps(void) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

// pipe2(2), accept4(2): only declared with _GNU_SOURCE. Descriptors that close on exec from their first moment, as
// another thread may start a program in the next one.
extern int pipe2(int ends[2], int flags);
struct sockaddr;
extern int accept4(int socket, struct sockaddr *address, unsigned *length, int flags);

// pidfd_open(2), Linux 5.3: readable once the process has ended.
static inline int reel_process_descriptor(int pid) { return (int)syscall(SYS_pidfd_open, pid, 0); }

// pidfd_send_signal(2), Linux 5.1: a descriptor of /proc/PID names a process whose number cannot be another's meanwhile.
static inline int reel_signal_process(int fd, int number) {
    return (int)syscall(SYS_pidfd_send_signal, fd, number, (void *)0, 0);
}

// posix_spawn_file_actions_addclosefrom_np(3), glibc 2.34: only declared with _GNU_SOURCE.
extern int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *, int from);

// unshare(2): only declared with _GNU_SOURCE. Tests give a thread a table of descriptors of its own.
extern int unshare(int flags);

// setns(2): only declared with _GNU_SOURCE. Tests put their servers into a network of their own.
extern int setns(int fd, int type);

// getdents64(2): only declared with _GNU_SOURCE. readdir(3) chooses its own buffer; tests do not.
extern ssize_t getdents64(int fd, void *buffer, size_t length);

// lseek(2) with SEEK_HOLE: the constant is only declared with _GNU_SOURCE; 4 since Linux 3.1.
static inline long reel_seek_hole(int fd, long offset) { return lseek(fd, offset, 4); }

// open(2) with O_DIRECT: the name is only there with _GNU_SOURCE, and the number is not the same everywhere.
static const int reel_o_direct = __O_DIRECT;

// open(2) with O_PATH: the name is only there with _GNU_SOURCE.
static const int reel_o_path = __O_PATH;

// pthread_setname_np(3): only declared with _GNU_SOURCE.
extern int pthread_setname_np(pthread_t, const char *);
static inline void reel_name_thread(pthread_t thread, const char *name) { pthread_setname_np(thread, name); }

// copy_file_range(2): only declared with _GNU_SOURCE. From and to the descriptors' own offsets.
static inline long reel_copy_file_range(int from, int to, unsigned long length) {
    return syscall(SYS_copy_file_range, from, (void *)0, to, (void *)0, length, 0);
}

// fcntl(2)'s F_SETLEASE (1024): only declared with _GNU_SOURCE. A write lease is granted where nobody else has the file open,
// mappings and the kernel itself (FUSE passthrough) included. 0, or an errno: EAGAIN where somebody has. It is given back at
// once; were another process to open the file in between, SIGIO would come, whose default ends the process.
static inline int reel_is_open_elsewhere(int fd) {
    if (fcntl(fd, 1024, F_WRLCK) < 0) return errno;
    fcntl(fd, 1024, F_UNLCK);
    return 0;
}

// preadv2(2) with RWF_NOWAIT (8, Linux 4.14): only declared with _GNU_SOURCE. Whether a byte of a file can be read without
// waiting for a disk. The last argument but one is the upper half of the offset, which is all in the lower one here.
static inline bool reel_is_in_memory(int fd, long offset) {
    char byte;
    struct iovec place = {&byte, 1};
    return syscall(SYS_preadv2, fd, &place, 1, offset, 0L, 8) == 1;
}
