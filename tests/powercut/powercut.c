/* Power cuts under the whole stack: the library and LMDB on a real file system on a
 * loop device, whose disk records what reaches it; then, many times over, the disk as a
 * cut would have left it is mounted, and held against what had been acknowledged. */
#include "tests/powercut/replay.h"

/* The wishes of the command line. per_run: states of one run. */
struct wanted {
    const char *fs; /* one of them; NULL: all */
    uint64_t n_states, seed, per_run;
};

/* Hashes. */
struct set {
    uint64_t *slot;
    size_t n, room; /* a power of two */
};

/* The beginning of a run: a new file system, or the remains of another after a cut. */
struct start {
    struct host_made made;
    struct history *before; /* NULL: new */
    uint64_t cut;
    unsigned generation;
};

struct tally {
    const struct host_fs *fs;
    char dir[HOST_PATH_BYTES], mount[HOST_PATH_BYTES + 8];
    struct finding *finding;
    struct set images, states; /* distinct; states: with what was acknowledged */
    uint64_t n_runs, n_continued, n_unmountable, n_damaged, n_lost, n_went_on, n_keys;
    uint64_t n_unsynced, n_unsynced_lost, n_entries, n_flushes, n_in_doubt;
};

static struct wanted wanted = {.n_states = 5000, .seed = 1, .per_run = 100};

/* Runs that go on from one another. */
enum { GENERATIONS = 3 };

/* ---- which states were seen ---- */

static bool set_add(struct set *s, uint64_t hash)
{
    if (s->n * 2 >= s->room) {
        struct set more = {.room = s->room ? s->room * 2 : 1024};
        more.slot = calloc(more.room, sizeof *more.slot);
        if (!more.slot)
            host_fail("no memory");
        for (size_t i = 0; i < s->room; i++)
            if (s->slot[i])
                set_add(&more, s->slot[i]);
        free(s->slot);
        *s = more;
    }
    hash |= 1;
    size_t i = hash >> 20 & (s->room - 1);
    while (s->slot[i] && s->slot[i] != hash)
        i = (i + 1) & (s->room - 1);
    bool is_new = !s->slot[i];
    s->n += is_new;
    s->slot[i] = hash;
    return is_new;
}

/* ---- recording ---- */

static void record(const struct tally *t, const struct start *from, struct history *h)
{
    char fuse[HOST_PATH_BYTES + 8], file[HOST_PATH_BYTES + 16];
    struct host_loop loop;
    snprintf(fuse, sizeof fuse, "%s/fuse", t->dir);
    snprintf(file, sizeof file, "%s/disk", fuse);
    device_serve(h->device, fuse);
    host_loop_open(&loop, file, t->dir);
    int err = host_mount(t->fs, &loop, t->mount);
    if (err)
        host_fail("mounting %s: %s", t->fs->name, strerror(err));
    int rc = from->before ? life_resume(h, from->before, from->cut, t->mount) : 0;
    if (!rc)
        rc = life_run(h, t->mount);
    host_unmount(t->mount);
    host_loop_close(&loop);
    device_stop(h->device, fuse);
    /* Not before: a disk that goes while it is mounted may hang for ever. */
    if (rc)
        host_fail("the engine ended with %d: %s", rc,
                  h->n_lives ? h->script[h->n_lives - 1] : "after a power cut");
}

/* ---- one state ---- */

static const char *const fate_names[] = {"all", "none", "writes", "torn", "sectors"};

static void report(struct tally *t, const struct history *h, uint64_t cut,
                   enum fate fate, const char *what)
{
    if (t->n_lost++ >= 5)
        return;
    printf(
        "%s: LOST: %s\n    run %llu, cut before %llu of %llu, what was not flushed: %s"
        "\n    again, as far as the kernel writes alike: %s --fs %s --seed %llu "
        "--states %llu\n",
        t->fs->name, what, (unsigned long long)t->n_runs, (unsigned long long)cut,
        (unsigned long long)atomic_load(&h->device->n_entries), fate_names[fate],
        program_invocation_name, t->fs->name, (unsigned long long)wanted.seed,
        (unsigned long long)wanted.n_states);
    for (uint32_t i = 0; i < h->n_lives; i++)
        printf("    process %u: %s\n", i, h->script[i]);
}

static void take_finding(struct tally *t, const struct history *h, uint64_t cut,
                         enum fate fate, int status)
{
    const struct finding *f = t->finding;
    char what[64];
    t->n_keys += f->n_keys;
    t->n_went_on += f->went_on;
    t->n_unsynced += f->n_unsynced;
    t->n_unsynced_lost += f->n_unsynced_lost;
    if (f->wrong && f->file_system) {
        if (t->n_damaged++ < 3)
            printf("%s: the file system is damaged: %s\n", t->fs->name, f->what);
    } else if (f->wrong) {
        report(t, h, cut, fate, f->what);
    } else if (status != 0) {
        snprintf(what, sizeof what, "the check ended with status %d", status);
        report(t, h, cut, fate, what);
    }
}

/* Now and then: does the loop device show the state, and nothing of the one before? */
static void expect_image(const struct replay *r, const struct host_loop *loop)
{
    static uint8_t page[HOST_PAGE];
    for (size_t p = 0; p < r->n_pages; p++) {
        if (!r->used[p] && !r->is_touched[p])
            continue;
        if (pread(loop->fd, page, HOST_PAGE, (off_t)(p * HOST_PAGE)) != HOST_PAGE)
            host_fail("reading %s", loop->path);
        if (memcmp(page, r->image + p * HOST_PAGE, HOST_PAGE) != 0)
            host_fail("the loop device does not show the state's page %zu", p);
    }
}

static void check(struct tally *t, const struct history *h, struct replay *r,
                  const struct host_loop *loop, uint64_t cut, enum fate fate)
{
    host_loop_forget(loop);
    if (t->states.n % 64 == 0)
        expect_image(r, loop);
    int err = host_mount(t->fs, loop, t->mount);
    r->image_is_old = true;
    if (err) {
        if (t->n_unmountable++ < 3)
            printf("%s: does not mount: %s\n", t->fs->name, strerror(err));
        return;
    }
    memset(t->finding, 0, sizeof *t->finding);
    pid_t pid = process_start(0);
    if (pid == 0)
        check_run(h, cut, t->mount, r->image_hash >> 40 & 1, t->finding);
    int status = host_wait(pid);
    host_unmount(t->mount);
    take_finding(t, h, cut, fate, status);
}

/* ---- one round: a run, and states of it ---- */

static int by_number(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

/* Half of the cuts come just after something was begun or acknowledged, an eighth
 * early, when stores are made and writers recover. */
static uint64_t draw_cut(struct history *h, size_t i)
{
    uint64_t n = atomic_load(&h->device->n_entries), cut;
    if (i % 8 == 0)
        return rng_below(&h->rng, n / 8 + 1);
    if (i % 2 == 0)
        return rng_below(&h->rng, n + 1);
    cut = h->moment[rng_below(&h->rng, h->n_moments)].at + rng_below(&h->rng, 4);
    return cut < n ? cut : n;
}

/* A state to go on from, copied before the file system brings it back. */
static void copy_start(const struct replay *r, uint64_t cut, struct start *next)
{
    host_make_room(&next->made, r->n_pages);
    for (size_t p = 0; p < r->n_pages; p++)
        if (r->used[p] || r->is_touched[p])
            host_take_page(&next->made, p, r->image + p * HOST_PAGE);
    next->cut = cut;
}

static void check_states(struct tally *t, struct history *h, struct replay *r,
                         const struct host_loop *loop, struct start *next)
{
    size_t n = (size_t)wanted.per_run;
    size_t chosen = n / 4 + (size_t)rng_below(&h->rng, n - n / 4);
    uint64_t *cut = calloc(n, sizeof *cut);
    if (!cut)
        host_fail("no memory");
    for (size_t i = 0; i < n; i++)
        cut[i] = draw_cut(h, i);
    qsort(cut, n, sizeof *cut, by_number);
    for (size_t i = 0; i < n && t->images.n < wanted.n_states; i++) {
        enum fate fate = (enum fate)rng_below(&h->rng, N_FATES);
        replay_state(r, cut[i], fate, &h->rng);
        size_t moment = (size_t)(history_at(h, cut[i]) - h->moment);
        set_add(&t->images, r->image_hash);
        if (!set_add(&t->states, mix64(r->image_hash, moment)))
            continue;
        bool copied = i >= chosen && !next->made.bytes && next->generation;
        if (copied)
            copy_start(r, cut[i], next);
        uint64_t bad = t->n_unmountable + t->n_damaged + t->n_lost;
        t->n_in_doubt += cut[i] > r->n_durable + 1; /* a flush, and what followed */
        check(t, h, r, loop, cut[i], fate);
        if (copied && bad != t->n_unmountable + t->n_damaged + t->n_lost)
            host_unmake(&next->made);
    }
    free(cut);
}

static void start_end(struct start *s)
{
    host_unmake(&s->made);
    if (s->before)
        history_free(s->before);
}

/* Every other disk has sectors of 4096 bytes, and so cannot tear a page or a block. XFS
 * goes by the sequence number in a block's first sector when it replays its log: a run
 * that begins with a replay leaves it too many disks that it refuses, if they tear. */
static unsigned sector_bytes(const struct tally *t, const struct start *from)
{
    bool small = t->fs->whole_blocks ? !from->before : t->n_runs % 2 == 0;
    return small ? 512 : 4096;
}

/* next: where another run may go on; its bytes are NULL if there is no such state. */
static void run_and_cut(struct tally *t, const struct start *from, struct start *next)
{
    char path[HOST_PATH_BYTES + 8];
    uint64_t seed = mix64(wanted.seed, t->n_runs);
    struct history *h = history_create(seed);
    struct replay r;
    struct host_loop loop;
    h->device = device_create(&from->made);
    record(t, from, h);
    uint64_t n = atomic_load(&h->device->n_entries);
    t->n_entries += n;
    for (uint64_t i = 0; i < n; i++)
        t->n_flushes += h->device->entry[i].kind == DEVICE_FLUSH;
    snprintf(path, sizeof path, "%s/image", t->dir);
    replay_begin(&r, h->device, &from->made, sector_bytes(t, from), path);
    host_loop_open(&loop, path, t->dir);
    *next = (struct start){.generation = (from->generation + 1) % GENERATIONS};
    check_states(t, h, &r, &loop, next);
    host_loop_close(&loop);
    replay_end(&r);
    unlink(path);
    device_free(h->device);
    if (next->made.bytes)
        next->before = h;
    else
        history_free(h);
    t->n_runs++;
    t->n_continued += from->before != NULL;
}

static double now(void)
{
    struct timespec s;
    clock_gettime(CLOCK_MONOTONIC, &s);
    return (double)s.tv_sec + (double)s.tv_nsec / 1e9;
}

static unsigned long long ull(uint64_t n)
{
    return n;
}

static bool judge(const struct tally *t, double seconds)
{
    const char *name = t->fs->name;
    uint64_t bad = t->n_unmountable + t->n_damaged;
    printf("%s: %llu runs (%llu after a cut) of %llu writes and %llu flushes; writes "
           "were in doubt in "
           "%llu states, a writer went on in %llu; %llu keys asked for; %.0f s\n",
           name, ull(t->n_runs), ull(t->n_continued), ull(t->n_entries - t->n_flushes),
           ull(t->n_flushes), ull(t->n_in_doubt), ull(t->n_went_on), ull(t->n_keys),
           seconds);
    printf("%s: what nobody had synced was gone in %llu of %llu cases\n", name,
           ull(t->n_unsynced_lost), ull(t->n_unsynced));
    printf("%s: %llu distinct states, %llu that it could not mount, %llu that it found "
           "damaged, %llu lost\n",
           name, ull(t->images.n), ull(t->n_unmountable), ull(t->n_damaged),
           ull(t->n_lost));
    if (t->n_unsynced_lost == 0)
        printf("%s: FAILED: this disk drops nothing\n", name);
    if (bad * 100 >= t->states.n)
        printf("%s: FAILED: too many that the file system does not bring back\n", name);
    return t->n_lost == 0 && t->n_unsynced_lost > 0 && bad * 100 < t->states.n;
}

static bool run_fs(const struct host_fs *fs, const char *dir)
{
    struct tally t = {.fs = fs};
    struct start fresh = {.generation = 0}, from = {.generation = 0}, next;
    double began = now();
    snprintf(t.dir, sizeof t.dir, "%s", dir);
    snprintf(t.mount, sizeof t.mount, "%s/mount", dir);
    t.finding = memory_shared(sizeof *t.finding);
    host_mkfs(fs, dir, &fresh.made);
    while (t.images.n < wanted.n_states) {
        run_and_cut(&t, from.made.bytes ? &from : &fresh, &next);
        start_end(&from);
        from = next;
        if (isatty(2))
            fprintf(stderr, "%s: %zu states, %.0f s\n", fs->name, t.images.n,
                    now() - began);
    }
    start_end(&from);
    start_end(&fresh);
    free(t.images.slot);
    free(t.states.slot);
    return judge(&t, now() - began);
}

static int run(const char *dir)
{
    char path[HOST_PATH_BYTES + 8];
    bool ok = true, any = false;
    setvbuf(stdout, NULL, _IOLBF, 0);
    snprintf(path, sizeof path, "%s/fuse", dir);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/mount", dir);
    mkdir(path, 0700);
    for (unsigned i = 0; i < host_n_file_systems; i++) {
        const struct host_fs *fs = &host_file_systems[i];
        if (wanted.fs && strcmp(wanted.fs, fs->name) != 0)
            continue;
        any = true;
        ok = run_fs(fs, dir) && ok;
    }
    if (!any)
        host_fail("no such file system: %s", wanted.fs);
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    const struct known_option known[] = {{"fs", .text = &wanted.fs},
                                         {"states", .number = &wanted.n_states},
                                         {"seed", .number = &wanted.seed},
                                         {"per-run", .number = &wanted.per_run},
                                         {0}};
    return options_read(argc, argv, known) ? host_run(run) : 2;
}
