/* What the stand-in is told: settings, faults, the control file; and the counters it keeps.
 * Every setting KEY is looked up in the control file first, then in FAKENVML_KEY. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAXDEV 128
#define MAXMIG 3
#define MAXPIDS 65536
#define MAXRULES 64
#define MAGIC 0x46414b45u

enum model { SXM, PCIE, GEFORCE };
enum topo { ISLANDS, NVSWITCH, NOLINK };
enum load { WAVE, IDLE, BUSY };

typedef struct gpu {
    u32 magic;
    int index, mig;             /* mig: -1 = a whole GPU, else instance number */
    struct gpu *parent;
    u64 total;
    u32 gi;
    u64 ncalls;
    long lostAfter;             /* -1 = never */
} gpu_t;

static struct {
    int devices, procs, gprocs, mig, spin, trace;
    enum model model;
    enum topo topo;
    enum load load;
    double frozen;
    long latency_us, pcie_ms, init_ms;
    int init_err;
    char driver[80];
    u32 pids[MAXPIDS];
    int npids;
} C;

enum fault { HANG, FAIL, GARBAGE };
typedef struct { enum fault fault; char fn[80]; int dev; double arg; long after, seen; } rule_t;
static rule_t rules[MAXRULES];
static int nrules;

static gpu_t gpus[MAXDEV], migs[MAXMIG];
static int inited;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t settings_lock = PTHREAD_RWLOCK_INITIALIZER;
static __thread int lies;       /* the call in progress shall return garbage */

static const u64 MODELMEM[] = { 80 * GIB, 45 * GIB, 24 * GIB };

/* ---- the control file --------------------------------------------------------------- */
static struct { const char *path; char text[1 << 16]; ino_t inode; struct timespec changed; } control;

static int control_changed(void) {
    struct stat s;
    if (!control.path || stat(control.path, &s)) return 0;
    return s.st_ino != control.inode || s.st_mtim.tv_sec != control.changed.tv_sec
        || s.st_mtim.tv_nsec != control.changed.tv_nsec;
}

static void read_control(void) {
    struct stat s;
    int fd = control.path ? open(control.path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    if (fstat(fd, &s) == 0) { control.inode = s.st_ino; control.changed = s.st_mtim; }
    ssize_t n = read(fd, control.text, sizeof control.text - 1);
    control.text[n > 0 ? n : 0] = 0;
    close(fd);
}

/* The value of a setting or NULL; it lies in a buffer that the next call overwrites. */
static const char *setting(const char *key) {
    static char value[sizeof control.text];
    size_t length = strlen(key);
    for (const char *line = control.text; line && *line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, key, length) || line[length] != '=') continue;
        snprintf(value, sizeof value, "%.*s", (int)strcspn(line + length + 1, "\n"), line + length + 1);
        return value;
    }
    char name[64];
    snprintf(name, sizeof name, "FAKENVML_%s", key);
    const char *s = getenv(name);
    return s && *s ? s : 0;
}

static long number(const char *key, long otherwise) {
    const char *s = setting(key);
    return s && *s ? strtol(s, 0, 0) : otherwise;
}

static int choice(const char *key, const char *const *words) {
    const char *s = setting(key);
    for (int i = 0; s && words[i]; i++) if (!strcmp(s, words[i])) return i;
    return 0;
}

/* ---- reading them all --------------------------------------------------------------- */
static void read_rules(const char *key, enum fault fault) {
    const char *s = setting(key);
    if (!s) return;
    char *copy = strdup(s), *save = 0;
    for (char *t = strtok_r(copy, ",", &save); t && nrules < MAXRULES; t = strtok_r(0, ",", &save)) {
        rule_t *r = &rules[nrules];
        char dev[16] = "*", arg[32] = "0";
        memset(r, 0, sizeof *r);
        if (sscanf(t, "%79[^:]:%15[^:]:%31[^:]:%ld", r->fn, dev, arg, &r->after) < (fault == GARBAGE ? 2 : 3)) continue;
        r->fault = fault;
        r->dev = dev[0] == '*' ? -1 : atoi(dev);
        r->arg = strcmp(arg, "inf") ? atof(arg) : 1e9;
        nrules++;
    }
    free(copy);
}

static void read_pids(void) {
    const char *s = setting("PIDS");
    char *list = 0, *save = 0;
    C.npids = 0;
    if (s && *s == '@') {
        FILE *f = fopen(s + 1, "r");
        if (f) { list = calloc(1, 1 << 20); list[fread(list, 1, (1 << 20) - 1, f)] = 0; fclose(f); }
    } else if (s) list = strdup(s);
    for (char *t = list ? strtok_r(list, ", \n\t", &save) : 0; t && C.npids < MAXPIDS; t = strtok_r(0, ", \n\t", &save))
        C.pids[C.npids++] = (u32)strtoul(t, 0, 10);
    free(list);
}

static void read_lost(void) {
    const char *s = setting("LOST");
    if (!s) return;
    char *copy = strdup(s), *save = 0;
    for (char *t = strtok_r(copy, ",", &save); t; t = strtok_r(0, ",", &save)) {
        int dev; long n = 0;
        if (sscanf(t, "%d:%ld", &dev, &n) >= 1 && dev >= 0 && dev < C.devices) gpus[dev].lostAfter = n;
    }
    free(copy);
}

static void make_devices(void) {
    static const u64 slice[MAXMIG] = { 40, 20, 10 };
    for (int i = 0; i < C.devices; i++)
        gpus[i] = (gpu_t){ MAGIC, i, -1, 0, MODELMEM[C.model], NONE32, 0, -1 };
    for (int i = 0; C.mig && i < MAXMIG; i++)
        migs[i] = (gpu_t){ MAGIC, 0, i, &gpus[0], slice[i] * GIB, (u32)(i + 1), 0, -1 };
}

static void read_settings(void) {
    static const char *const models[] = { "sxm", "pcie", "geforce", 0 };
    static const char *const topos[] = { "islands", "nvswitch", "pcie", 0 };
    static const char *const loads[] = { "wave", "idle", "busy", 0 };
    const char *s;
    C.devices = (int)number("DEVICES", 8);
    C.devices = C.devices < 0 ? 0 : C.devices > MAXDEV ? MAXDEV : C.devices;
    C.procs = (int)number("PROCS_PER_DEVICE", 0);
    C.gprocs = (int)number("GRAPHICS_PER_DEVICE", 0);
    C.mig = (int)number("MIG", 0);
    C.spin = (int)number("SPIN", 0);
    C.trace = (int)number("TRACE", 0);
    C.latency_us = number("LATENCY_US", 0);
    C.pcie_ms = number("PCIE_MS", 0);
    C.init_ms = number("INIT_MS", 0);
    C.init_err = (int)number("INIT_ERR", 0);
    C.frozen = (s = setting("TIME")) ? atof(s) : -1;
    C.load = (enum load)choice("LOAD", loads);
    C.model = (enum model)choice("MODEL", models);
    C.topo = (enum topo)choice("TOPO", topos);
    if (C.model != SXM) { C.topo = NOLINK; C.mig = 0; }
    snprintf(C.driver, sizeof C.driver, "%.79s", (s = setting("DRIVER")) ? s : "550.163.01");
    read_pids();
    make_devices();
    nrules = 0;
    read_rules("HANG", HANG);
    read_rules("FAIL", FAIL);
    read_rules("GARBAGE", GARBAGE);
    read_lost();
}

static void refresh_settings(void) {
    if (!control_changed()) return;
    pthread_rwlock_wrlock(&settings_lock);
    if (control_changed()) { read_control(); read_settings(); }
    pthread_rwlock_unlock(&settings_lock);
}

/* ---- counters: one text line per function in a mapped file, always current ----------- */
#define MAXFN 700
#define LINE 64
static const char *fnname[MAXFN];
static u64 fncount[MAXFN];
static int nfn;
static char *cmap;
static int cfd = -1;

static void open_counters(void) {
    const char *s = setting("COUNT"), *q = s ? strstr(s, "%p") : 0;
    char path[512];
    if (!s) return;
    if (q) snprintf(path, sizeof path, "%.*s%d%s", (int)(q - s), s, (int)getpid(), q + 2);
    else snprintf(path, sizeof path, "%s", s);
    cfd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (cfd < 0) return;
    cmap = mmap(0, MAXFN * LINE, PROT_READ | PROT_WRITE, MAP_SHARED, cfd, 0);
    if (cmap == MAP_FAILED) cmap = 0;
}

static void put_count(int id) {
    char *p = cmap + (size_t)id * LINE + LINE - 14, b[13];
    u64 v = __atomic_load_n(&fncount[id], __ATOMIC_RELAXED);
    for (int i = 11; i >= 0; i--) { b[i] = v || i == 11 ? (char)('0' + v % 10) : ' '; v /= 10; }
    memcpy(p, b, 12);
}

static int register_fn(const char *name) {
    pthread_mutex_lock(&names_lock);
    int id = -1;
    for (int i = 0; i < nfn; i++) if (!strcmp(fnname[i], name)) id = i;
    if (id < 0 && nfn < MAXFN) {
        id = nfn++;
        fnname[id] = name;
        if (cmap && ftruncate(cfd, (off_t)nfn * LINE) == 0) {
            char *p = cmap + (size_t)id * LINE;
            memset(p, ' ', LINE); p[LINE - 1] = '\n';
            size_t l = strlen(name); memcpy(p, name, l > 48 ? 48 : l);
        }
    }
    pthread_mutex_unlock(&names_lock);
    return id;
}

static void count(int *id, const char *name) {
    if (*id < 0) *id = register_fn(name);
    if (*id < 0) return;
    __atomic_add_fetch(&fncount[*id], 1, __ATOMIC_RELAXED);
    if (cmap) put_count(*id);
}

static void configure(void) {
    control.path = getenv("FAKENVML_CONTROL");
    read_control();
    read_settings();
    open_counters();
}

/* ---- delays -------------------------------------------------------------------------- */
static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void pause_us(double us) {
    if (us <= 0) return;
    if (C.spin) {
        double end = seconds(CLOCK_MONOTONIC) + us / 1e6;
        while (seconds(CLOCK_MONOTONIC) < end) ;
        return;
    }
    struct timespec t = { (time_t)(us / 1e6), 0 };
    t.tv_nsec = (long)((us - (double)t.tv_sec * 1e6) * 1e3);
    while (nanosleep(&t, &t) < 0 && errno == EINTR) ;
}

/* A hang lasts its time, or until the control file changes. */
static void hang(double s) {
    if (!control.path) { pause_us(s * 1e6); return; }
    for (double end = seconds(CLOCK_MONOTONIC) + s; seconds(CLOCK_MONOTONIC) < end && !control_changed(); )
        pause_us(20e3);
}

/* ---- the door that every call goes through -------------------------------------------- */
enum { SYSTEM, WHOLE, ANY_DEVICE, BEFORE_INIT };

static gpu_t *valid(void *h) {
    gpu_t *g = h;
    if ((g >= gpus && g < gpus + C.devices) || (C.mig && g >= migs && g < migs + MAXMIG))
        return g->magic == MAGIC ? g : 0;
    return 0;
}

/* Whether a rule names the function: itself, or it without its version suffix. */
static int names(const rule_t *r, const char *name) {
    size_t n = strlen(r->fn);
    if (strncmp(r->fn, name, n)) return 0;
    return !name[n] || (name[n] == '_' && name[n + 1] == 'v' && name[n + 2] && !name[n + 3]);
}

/* Applies the faults that are told for a call: a return value, or seconds to hang. */
static ret_t faults(const char *name, gpu_t *g, double *hangs) {
    for (int i = 0; i < nrules; i++) {
        rule_t *r = &rules[i];
        if (r->fn[0] == '*' ? !g : !names(r, name)) continue;
        if (r->dev >= 0 && (!g || g->index != r->dev)) continue;
        if (__atomic_add_fetch(&r->seen, 1, __ATOMIC_RELAXED) <= r->after) continue;
        if (r->fault == FAIL) return (ret_t)r->arg;
        if (r->fault == HANG) *hangs = r->arg;
        else lies = 1;
    }
    return OK;
}

/* Everything common to a call: count, state, handle, faults, latency. */
static ret_t enter(int *fid, const char *name, void *h, int mode, gpu_t **out) {
    pthread_once(&once, configure);
    refresh_settings();
    count(fid, name);
    lies = 0;
    if (mode != BEFORE_INIT && !inited) return UNINITIALIZED;
    gpu_t *g = 0;
    double hangs = 0;
    pthread_rwlock_rdlock(&settings_lock);
    ret_t result = OK;
    if (mode == WHOLE || mode == ANY_DEVICE) {
        g = valid(h);
        if (!g) result = INVALID;
    }
    if (C.trace) fprintf(stderr, "fakenvml %s(%d%s)\n", name, g ? g->index : -1, g && g->mig >= 0 ? " mig" : "");
    if (g) {
        *out = g;
        gpu_t *p = g->parent ? g->parent : g;
        u64 n = __atomic_add_fetch(&p->ncalls, 1, __ATOMIC_RELAXED);
        if (p->lostAfter >= 0 && n > (u64)p->lostAfter) result = LOST;
    }
    if (!result) result = faults(name, g, &hangs);
    pthread_rwlock_unlock(&settings_lock);
    if (hangs > 0) hang(hangs);
    if (g && C.latency_us) pause_us((double)C.latency_us);
    if (!result && g && g->mig >= 0 && mode == WHOLE) return UNSUPPORTED;
    return result;
}

#define ENTER(mode, h) static int fid_ = -1; gpu_t *g = 0; \
    { ret_t r_ = enter(&fid_, __func__, (void *)(h), mode, &g); if (r_) return r_; } (void)g
#define SYS()   ENTER(SYSTEM, 0)
#define DEV(h)  ENTER(WHOLE, h)
#define ANY(h)  ENTER(ANY_DEVICE, h)
#define NEED(p) do { if (!(p)) return INVALID; } while (0)
#define ONLY(cond) do { if (!(cond)) return UNSUPPORTED; } while (0)
#define LIE(garbage, truth) (lies ? (garbage) : (truth))
