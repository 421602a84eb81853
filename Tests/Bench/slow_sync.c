/* A disk whose every sync takes 20 ms more, for a program that is started with this in LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

static int slow(const char *name, int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    nanosleep(&(struct timespec){0, 20 * 1000 * 1000}, NULL);
    return real(file);
}

int fsync(int file) { return slow("fsync", file); }
int fdatasync(int file) { return slow("fdatasync", file); }
int syncfs(int file) { return slow("syncfs", file); }
