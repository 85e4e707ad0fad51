/* Settings of the stand-in: values, faults, the control file.
 * Every setting KEY is looked up in the control file first, then in FAKENVML_KEY. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
enum load { WAVE, IDLE, BUSY, FIRST };

typedef struct { int dev; u32 code; } xid_t;
typedef struct { int dev; u32 field; long link; double per_second; } rise_t;
enum { AS_EVER, NUMBER, NONE };
typedef struct { char fn[64]; int dev, count; u64 n[10]; unsigned char kind[10]; } answer_t;

typedef struct gpu {
    u32 magic;
    int index, mig;             /* mig: -1 = a whole GPU, else instance number */
    struct gpu *parent;
    u64 total;
    u32 gi;
    u64 ncalls;
    long lostAfter;             /* -1 = never */
    u64 orphaned;               /* bytes that no process owns */
    u64 down;                   /* NVLinks that are not up, a bit each */
    int removed;                /* unplugged at this moment */
} gpu_t;

static struct {
    int devices, procs, gprocs, mig, spin, trace, gpm, worn, grace, old, table;
    int fabric, fabric_status, fabric_health, fabric_summary;
    enum model model;
    enum topo topo;
    enum load load;
    double frozen;
    long latency_us, pcie_ms, init_ms;
    int init_err;
    char driver[80], name[96];
    u32 pids[MAXPIDS];
    int npids;
} C;

enum fault { HANG, FAIL, GARBAGE, EXIT, PRINT };
typedef struct { enum fault fault; char fn[80]; int dev; double arg; long after, seen; } rule_t;
static rule_t rules[MAXRULES];
static int nrules;
static xid_t xids[MAXRULES];
static rise_t rises[MAXRULES];
static answer_t answers[MAXRULES];
static int nxids, nrises, nanswers;
static unsigned settings_read;   /* how often they were */

static gpu_t gpus[MAXDEV], migs[MAXMIG];
static int present[MAXDEV], npresent;   /* the GPUs that the last nvmlInit found */
static int gone[MAXDEV];                /* unplugged since then, even if it is back */
static pthread_rwlock_t settings_lock = PTHREAD_RWLOCK_INITIALIZER;

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
        if (sscanf(t, "%79[^:]:%15[^:]:%31[^:]:%ld", r->fn, dev, arg, &r->after) < (fault == GARBAGE || fault == PRINT ? 2 : 3)) continue;
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

/* Calls `take` with each word of a list that commas separate. */
static void each_word(const char *key, void (*take)(const char *)) {
    const char *s = setting(key);
    if (!s) return;
    char *copy = strdup(s), *save = 0;
    for (char *t = strtok_r(copy, ",", &save); t; t = strtok_r(0, ",", &save)) take(t);
    free(copy);
}

static int is_device(int dev) { return dev >= 0 && dev < C.devices; }

static void take_removed(const char *t) {
    int dev = atoi(t);
    if (is_device(dev)) gone[dev] = gpus[dev].removed = 1;
}

static void take_xid(const char *t) {
    xid_t x;
    if (nxids < MAXRULES && sscanf(t, "%d:%u", &x.dev, &x.code) == 2 && is_device(x.dev)) xids[nxids++] = x;
}

static void take_rise(const char *t) {
    rise_t r = { 0, 0, -1, 0 };
    if (nrises == MAXRULES) return;
    if (sscanf(t, "%d:%u.%ld:%lf", &r.dev, &r.field, &r.link, &r.per_second) == 4
        || (r.link = -1, sscanf(t, "%d:%u:%lf", &r.dev, &r.field, &r.per_second) == 3)) rises[nrises++] = r;
}

static void take_answer(const char *t) {
    answer_t *a = &answers[nanswers];
    char dev[16];
    int start = 0;
    if (nanswers == MAXRULES || sscanf(t, "%63[^:]:%15[^:]:%n", a->fn, dev, &start) != 2 || !start) return;
    a->dev = dev[0] == '*' ? -1 : atoi(dev);
    for (a->count = 0, t += start; *t && a->count < 10; a->count++) {
        a->kind[a->count] = *t == '_' ? AS_EVER : *t == '-' ? NONE : NUMBER;
        a->n[a->count] = strtoull(t, 0, 0);
        t += strcspn(t, "/");
        if (*t) t++;
    }
    nanswers++;
}

static void take_orphaned(const char *t) {
    int dev; u64 mib;
    if (sscanf(t, "%d:%llu", &dev, &mib) == 2 && is_device(dev)) gpus[dev].orphaned = mib * MIB;
}

static void take_down(const char *t) {
    int dev; u32 link;
    if (sscanf(t, "%d:%u", &dev, &link) == 2 && is_device(dev) && link < 64) gpus[dev].down |= 1ull << link;
}

static void read_troubles(void) {
    const char *s = setting("FABRIC");
    C.fabric = C.fabric_status = C.fabric_health = C.fabric_summary = 0;
    if (s) sscanf(s, "%d:%d:%d:%d", &C.fabric, &C.fabric_status, &C.fabric_health, &C.fabric_summary);
    nxids = nrises = nanswers = 0;
    each_word("REMOVED", take_removed);
    each_word("XID", take_xid);
    each_word("RISE", take_rise);
    each_word("ANSWER", take_answer);
    each_word("ORPHANED", take_orphaned);
    each_word("LINK_DOWN", take_down);
}

static void make_devices(void) {
    static const u64 slice[MAXMIG] = { 40, 20, 10 };
    for (int i = 0; i < C.devices; i++)
        gpus[i] = (gpu_t){ MAGIC, i, -1, 0, MODELMEM[C.model], NONE32, 0, -1, 0, 0, 0 };
    for (int i = 0; C.mig && i < MAXMIG; i++)
        migs[i] = (gpu_t){ MAGIC, 0, i, &gpus[0], slice[i] * GIB, (u32)(i + 1), 0, -1, 0, 0, 0 };
}

static void read_settings(void) {
    static const char *const models[] = { "sxm", "pcie", "geforce", 0 };
    static const char *const topos[] = { "islands", "nvswitch", "pcie", 0 };
    static const char *const loads[] = { "wave", "idle", "busy", "first", 0 };
    const char *s;
    C.devices = (int)number("DEVICES", 8);
    C.devices = C.devices < 0 ? 0 : C.devices > MAXDEV ? MAXDEV : C.devices;
    C.procs = (int)number("PROCS_PER_DEVICE", 0);
    C.gprocs = (int)number("GRAPHICS_PER_DEVICE", 0);
    C.mig = (int)number("MIG", 0);
    C.spin = (int)number("SPIN", 0);
    C.trace = (int)number("TRACE", 0);
    C.gpm = (int)number("GPM", 0);
    C.worn = (int)number("WORN", 0);
    C.grace = (int)number("GRACE", 0);
    C.old = number("OLD", 0) != 0;
    C.table = number("TABLE", 1) != 0;
    snprintf(C.name, sizeof C.name, "%.95s", (s = setting("NAME")) ? s : "");
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
    read_rules("EXIT", EXIT);
    read_rules("PRINT", PRINT);
    read_lost();
    read_troubles();
    settings_read++;
}

static void refresh_settings(void) {
    if (!control_changed()) return;
    pthread_rwlock_wrlock(&settings_lock);
    if (control_changed()) { read_control(); read_settings(); }
    pthread_rwlock_unlock(&settings_lock);
}
