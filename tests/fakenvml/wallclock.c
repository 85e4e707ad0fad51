/*
 * wallclock - lets a process that preloads it live at another time of day, which may jump.
 *
 * Build:  cc -shared -fPIC -O2 -o wallclock.so wallclock.c
 * Use:    LD_PRELOAD=$PWD/wallclock.so WALLCLOCK=FILE gpudash --json
 *
 * FILE holds by how many seconds the wall clock is ahead; all other clocks go on as ever, as when
 * somebody sets the time. No namespace of Linux can do that.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead(void) {
    const char *path = getenv("WALLCLOCK");
    char text[32] = "";
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 ? strtol(text, 0, 10) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *t) {
    long r = syscall(SYS_clock_gettime, clock, t);
    if (!r && clock == CLOCK_REALTIME) t->tv_sec += ahead();
    return (int)r;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) *t = now.tv_sec;
    return now.tv_sec;
}
