/* Recording: which files and names a run has, and a look at the files' content before
 * and after each call, which shows what was stored through mappings meanwhile. */
#include "tests/crash/record/record.h"

#include <sched.h>
#include <semaphore.h>

struct run *recording;
uint64_t run_seed, run_states;

_Noreturn void run_fail(const struct run *r, const char *format, ...)
{
    char text[2 * SAID_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    script_failed(text);
    fprintf(stderr, "LOST: %s\n  workload %s, round %u, seed %llu\n", text, r->workload,
            r->round, (unsigned long long)run_seed);
    for (; r; r = r->parent) {
        fprintf(stderr, "  level %u, event %u, step %zu; promised:", r->level, r->event,
                r->player.at + 1);
        for (size_t i = 0; i < r->promises.n_objects; i++) {
            const struct object *o = &r->promises.object[i];
            fprintf(stderr, " %s (%d", o->name, o->standing);
            if (o->grows)
                fprintf(stderr, ", watermark %u of %u, stages %u, seal %d",
                        o->watermark, o->asked, o->stages, o->seal);
            fprintf(stderr, ")");
        }
        fprintf(stderr, "; state:\n");
        if (r->now)
            disk_describe(r->now, stderr);
    }
    fflush(stderr);
    _exit(3);
}

/* ---- looking ---- */

static uint8_t *look_buffer(size_t n_bytes)
{
    static uint8_t *buffer;
    static size_t room;
    if (n_bytes > room) {
        buffer = realloc(buffer, n_bytes);
        room = n_bytes;
    }
    if (!buffer)
        abort();
    return buffer;
}

static void look(struct run *r, bool by_mapping)
{
    tree_note(r, false);
    for (size_t i = 0; i < r->disk.n_files; i++) {
        struct disk_file *f = &r->disk.files[i];
        uint64_t n;
        size_t got;
        if (f->is_dir)
            continue;
        if (io_size(r->fd[i], &n))
            abort();
        uint8_t *bytes = look_buffer((size_t)n + SECTOR_BYTES);
        if (io_read(r->fd[i], bytes, (size_t)n, 0, &got) || got != n)
            abort();
        disk_store(f, bytes, n, by_mapping && !f->lmdb);
        if (f->lmdb)
            tree_settle(f);
    }
    touch_take();
}

void record_look(struct run *r)
{
    look(r, true);
}

/* A commit promises keys that it has made durable before it returns. */
static void take_promises(struct run *r)
{
    for (size_t i = 0; i < r->promises.n_objects; i++) {
        struct object *o = &r->promises.object[i];
        struct tamis_writer *w = r->player.writer[i];
        if (!w)
            continue;
        uint64_t watermark = w->watermark;
        uint32_t stages = atomic_load(&w->n_stages);
        if (watermark > o->watermark)
            o->watermark = (uint32_t)watermark;
        if (stages > o->stages)
            o->stages = stages;
    }
}

void record_call(struct run *r, bool by_mapping)
{
    recording = NULL;
    look(r, by_mapping);
    take_promises(r);
    r->event++;
    r->on_event(r);
    recording = r;
}

void record_event(struct run *r)
{
    record_call(r, true);
}

/* ---- files and names ---- */

struct disk_file *record_file(struct run *r, int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return NULL;
    int file = disk_find_file(&r->disk, st.st_ino);
    if (file < 0) {
        tree_note(r, false);
        file = disk_find_file(&r->disk, st.st_ino);
    }
    return file < 0 ? NULL : &r->disk.files[file];
}

bool record_has_lied(const struct run *r)
{
    for (size_t i = 0; i < r->disk.n_files; i++)
        if (r->disk.files[i].has_lied)
            return true;
    return false;
}

void record_lie(struct run *r)
{
    look(r, true);
    for (size_t i = 0; i < r->disk.n_files; i++)
        if (!r->disk.files[i].is_dir)
            disk_lie(&r->disk.files[i], &r->rng);
}

bool record_dir(struct run *r, int fd, int *dir)
{
    struct stat st;
    *dir = DISK_ROOT;
    if (!r || fstat(fd, &st) != 0)
        return false;
    if (st.st_ino == r->dir_inode)
        return true;
    if (!S_ISDIR(st.st_mode))
        return false;
    *dir = disk_find_file(&r->disk, st.st_ino);
    if (*dir < 0) {
        tree_note(r, false);
        *dir = disk_find_file(&r->disk, st.st_ino);
    }
    return *dir >= 0;
}

void record_begin(struct run *r, const char *dir, uint64_t seed)
{
    snprintf(r->dir, sizeof r->dir, "%s", dir);
    r->rng.state = seed;
    struct stat st;
    r->dir_inode = stat(dir, &st) == 0 ? st.st_ino : 0;
    r->clock = 1000;
    calls_seed(mix64(seed, 3));
}

void record_end(struct run *r)
{
    for (size_t i = 0; i < r->disk.n_files; i++)
        close(r->fd[i]);
    disk_free(&r->disk);
}

/* ---- trees of directories: names that no recorded call has made, and states as files
 * ---- */

enum { TREE_PATH_BYTES = 2 * RUN_PATH_BYTES + DISK_NAME_BYTES };

/* ---- noting ---- */

static uint8_t *contents(int fd, size_t n)
{
    uint8_t *bytes = malloc(n + 1);
    if (!bytes || (n && pread(fd, bytes, n, 0) != (ssize_t)n))
        abort();
    return bytes;
}

static int add_file(struct run *r, const char *path, const char *name, bool durable)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        abort();
    bool is_dir = S_ISDIR(st.st_mode);
    size_t n = durable && !is_dir ? (size_t)st.st_size : 0;
    uint8_t *bytes = contents(fd, n);
    size_t file = disk_add_file(&r->disk, st.st_ino, bytes, n);
    free(bytes);
    r->fd[file] = fd; /* kept: no other file gets its inode number */
    r->disk.files[file].is_dir = is_dir;
    r->disk.files[file].lmdb = strncmp(name, "catalog.lmdb", 12) == 0;
    return (int)file;
}

static void note_dir(struct run *r, int dir, const char *path, bool durable)
{
    char one[TREE_PATH_BYTES];
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.' || strstr(e->d_name, "-lock"))
            continue;
        snprintf(one, sizeof one, "%.500s/%.79s", path, e->d_name);
        int file = disk_find_file(&r->disk, e->d_ino);
        if (file < 0)
            file = add_file(r, one, e->d_name, durable);
        if (disk_live_name(&r->disk, dir, e->d_name) != file)
            disk_set_name(&r->disk, dir, e->d_name, file, durable);
        if (r->disk.files[file].is_dir)
            note_dir(r, file, one, durable);
    }
    if (d)
        closedir(d);
}

void tree_note(struct run *r, bool durable)
{
    note_dir(r, DISK_ROOT, r->dir, durable);
}

/* The pages of LMDB's file that are not synced yet are pages that no meta page names.
 * Its meta pages, the first two, are written through a descriptor that syncs, after
 * them. (Were they written without a sync of the others, nothing would be durable
 * here.) */
void tree_settle(struct disk_file *f)
{
    for (size_t i = 0; i < f->n_dirty; i++)
        if (f->dirty[i].at >= 2 * PAGE_BYTES / SECTOR_BYTES)
            return;
    disk_sync_begin(f);
    disk_sync_end(f);
}

/* ---- writing ---- */

struct putting {
    const struct disk_state *state;
    char first[DISK_MAX_FILES][TREE_PATH_BYTES]; /* name of a file */
};

static void put_file_at(struct putting *p, int file, const char *path)
{
    char *first = p->first[file];
    if (first[0]) {
        if (link(first, path) != 0)
            abort();
        return;
    }
    snprintf(first, TREE_PATH_BYTES, "%s", path);
    uint8_t *bytes = malloc(p->state->disk->files[file].capacity);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (!bytes || fd < 0)
        abort();
    size_t n = (size_t)disk_image(p->state, (size_t)file, bytes);
    if (write(fd, bytes, n) != (ssize_t)n)
        abort();
    close(fd);
    free(bytes);
}

static void put_dir(struct putting *p, int dir, const char *path)
{
    const struct disk *d = p->state->disk;
    char one[TREE_PATH_BYTES];
    if (mkdir(path, 0700) != 0)
        abort();
    for (size_t i = 0; i < d->n_names; i++) {
        int file = disk_state_file(p->state, i);
        if (d->names[i].dir != dir || file < 0)
            continue;
        snprintf(one, sizeof one, "%.500s/%s", path, d->names[i].text);
        if (d->files[file].is_dir)
            put_dir(p, file, one);
        else
            put_file_at(p, file, one);
    }
}

void tree_put(const struct disk_state *s, const char *path)
{
    static struct putting p;
    memset(&p, 0, sizeof p);
    p.state = s;
    tree_remove(path);
    put_dir(&p, DISK_ROOT, path);
}

/* ---- stores that change nothing: R3's "makes it dirty again" ---- */

/* Mappings of a file with lied pages, protected: the first store to a page faults. */
static struct region {
    uint8_t *at;
    size_t n_bytes;
    uint64_t offset;
    struct disk_file *file;
    uint8_t touched[4096];
} regions[64];
static size_t n_regions;

static void on_fault(int sig, siginfo_t *info, void *context)
{
    uint8_t *at = info->si_addr;
    (void)context;
    for (size_t i = 0; i < n_regions; i++) {
        struct region *g = &regions[i];
        if (at < g->at || at >= g->at + g->n_bytes)
            continue;
        size_t page = (size_t)(at - g->at) / PAGE_BYTES;
        if (g->touched[page])
            break;
        g->touched[page] = 1;
        mprotect(g->at + page * PAGE_BYTES, PAGE_BYTES, PROT_READ | PROT_WRITE);
        return;
    }
    signal(sig, SIG_DFL); /* a fault of the library: again, and for good */
}

void touch_watch(void *at, size_t n_bytes, off_t offset, struct disk_file *f)
{
    size_t i = 0;
    while (i < n_regions && regions[i].at != at)
        i++;
    if (i == 64 || n_bytes / PAGE_BYTES > sizeof regions[0].touched)
        abort();
    if (i == n_regions)
        n_regions++;
    regions[i] = (struct region){at, n_bytes, (uint64_t)offset, f, {0}};
    mprotect(at, n_bytes, PROT_READ);
}

void touch_take(void)
{
    for (size_t i = 0; i < n_regions; i++)
        for (size_t k = 0; k < regions[i].n_bytes / PAGE_BYTES; k++)
            if (regions[i].touched[k])
                disk_redirty(regions[i].file, regions[i].offset / PAGE_BYTES + k);
}

void record_unmapped(void)
{
    n_regions = 0;
}

void touch_install(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
}

/* ---- a second thread, in lock step, so that all is repeatable ---- */

uint64_t run_helper_adds;

struct helper {
    pthread_t thread;
    sem_t go;
    atomic_bool busy, quit;
    struct tamis_writer *w;
    uint64_t hash, tag;
    int result;
};

static void *help(void *arg)
{
    struct helper *h = arg;
    for (;;) {
        while (sem_wait(&h->go) != 0)
            ;
        if (atomic_load(&h->quit))
            return NULL;
        h->result = tamis_writer_add_hashes(h->w, h->tag, &h->hash, 1);
        atomic_store(&h->busy, false);
    }
}

void helper_start(struct run *r, size_t object)
{
    r->helper_object = object;
    r->helper = calloc(1, sizeof *r->helper);
    if (!r->helper || sem_init(&r->helper->go, 0, 0) != 0 ||
        pthread_create(&r->helper->thread, NULL, help, r->helper) != 0)
        abort();
}

void helper_stop(struct run *r)
{
    helper_join(r);
    atomic_store(&r->helper->quit, true);
    sem_post(&r->helper->go);
    pthread_join(r->helper->thread, NULL);
    sem_destroy(&r->helper->go);
    free(r->helper);
    r->helper = NULL;
}

void helper_join(struct run *r)
{
    struct object *o = &r->promises.object[r->helper_object];
    if (!r->helper)
        return;
    while (atomic_load(&r->helper->busy))
        sched_yield();
    o->n_done = o->n_added;
}

/* glibc's mark of a mutex that someone waits for: its holder is who asks. */
static bool mutex_contended(struct tamis_writer *w)
{
    return __atomic_load_n(&w->mutex.__data.__lock, __ATOMIC_ACQUIRE) > 1;
}

/* Adds a key, up to where it has to wait for us (it may want to grow the filter). */
void helper_turn(struct run *r)
{
    struct helper *h = r->helper;
    struct object *o = &r->promises.object[r->helper_object];
    struct tamis_writer *w = r->player.writer[r->helper_object];
    uint8_t bytes[8];
    if (!h || !w || atomic_load(&h->busy) || rng_below(&r->rng, 2))
        return;
    struct tamis_key key = key_number(o->keys.range[0].from + o->n_added++, bytes);
    h->w = w;
    h->tag = key.tag;
    h->hash = key.hash;
    atomic_store(&h->busy, true);
    sem_post(&h->go);
    while (atomic_load(&h->busy) && !mutex_contended(w))
        sched_yield();
    run_helper_adds++;
    if (!atomic_load(&h->busy) && h->result)
        o->n_added--; /* refused: sealed or poisoned */
    record_look(r);
}
