/* Opening the states: by a reader, by a reader after one slot rotted as well, and by an
 * engine that repairs, replays and goes on. */
#include "tests/crash/check.h"

static const struct run *checked; /* for model_broken() */

_Noreturn void model_broken(const char *text)
{
    run_fail(checked, "%s", text);
}

/* ---- playing ---- */

/* Once a sync has failed, or was not made, the writer may refuse; else nothing fails
 * but what must. */
static void returned(struct player *p, int rc, int expected, const char *call)
{
    struct run *r = p->ctx;
    bool died = r->is_killed || record_has_lied(r), may_fail = r->sync_failed;
    r->sync_failed = false;
    helper_join(r);
    if (rc == expected || (may_fail && rc == EIO) || rc == TAMIS_ERR_POISONED ||
        (died && strncmp(call, "tamis_writer_", 13) == 0))
        return;
    run_fail(r, "%s: %s (%s)", call, tamis_strerror(rc), p->diag.what);
}

static void event(struct player *p)
{
    struct run *r = p->ctx;
    if (!has_writer(p) && record_has_lied(r))
        record_unmapped();
    if (r->opening) {
        r->opening = false;
        tree_note(r, true);
        recording = r;
    }
    if (recording == r)
        record_event(r);
}

void run_player(struct run *r)
{
    struct promises *then = r->player.promised_then;
    r->player = (struct player){
        .p = &r->promises,
        .dir = r->dir,
        .rng = r->rng.state,
        .promised_then = then,
        .returned = returned,
        .event = event,
        .own = own_word,
        .ctx = r,
    };
}

void run_play(struct run *r, const struct script *s)
{
    const struct run *before = checked;
    checked = r;
    play(&r->player, s);
    helper_join(r);
    checked = before;
}

/* ---- rot on top ---- */

struct image {
    uint8_t *bytes;
    size_t n;
};

static bool map_image(const char *path, struct image *m)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return false;
    m->n = (size_t)st.st_size;
    m->bytes = mmap(NULL, m->n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return m->bytes != MAP_FAILED;
}

static bool slot_whole(const struct image *m, const struct identity *id, uint8_t slot)
{
    uint64_t sequence;
    return commit_frame(m->bytes + commit_slot_offset(slot), slot, id, &sequence)
               .code == VERDICT_OK;
}

/* As long as the power cut left the other slot whole, a slot that rots costs at most
 * the newest watermark: no stage, no seal, no key (R2). */
static void check_rotten_slot(const struct run *r, const struct run *next,
                              const struct image *m, uint8_t slot)
{
    static struct run rotten;
    struct identity id;
    struct look look = {.rotten_slot = true};
    uint8_t *byte = m->bytes + commit_slot_offset(slot) + 100;
    if (identity_decode(m->bytes, m->n, &id).code != VERDICT_OK ||
        id.header_pages != 3 || !slot_whole(m, &id, slot == SLOT_A ? SLOT_B : SLOT_A))
        return;
    *byte ^= 0x10;
    rotten.promises = r->promises;
    rotten.player = next->player;
    rotten.player.p = &rotten.promises;
    steps_expect(&rotten.player, &look);
    *byte ^= 0x10;
}

/* A sector of bits that comes back as zeros is found by its floor (R8): acknowledged
 * keys stay MAYBE, for another reason. */
static void check_lost_sector(const struct run *r, const struct image *m,
                              const char *path, const struct object *o, uint64_t hash)
{
    struct tamis_filter *f;
    struct tamis_filter_info all;
    uint8_t kept[SECTOR_BYTES], bytes[8];
    if (tamis_filter_open(path, NULL, &f, NULL) != 0 ||
        tamis_filter_info(f, &all, NULL) != 0)
        run_fail(r, "no info");
    const struct tamis_stage_info *stage = &all.stages[hash % all.n_stages];
    uint8_t *sector =
        m->bytes + stage->offset +
        hash / 256 % (stage->bits_bytes / SECTOR_BYTES) * (uint64_t)SECTOR_BYTES;
    memcpy(kept, sector, sizeof kept);
    memset(sector, 0, sizeof kept);
    for (uint32_t i = 0; i < o->watermark; i++) {
        struct tamis_key key = key_number(o->keys.range[0].from + i, bytes);
        if (tamis_filter_probe(f, &key, NULL) == TAMIS_ABSENT)
            run_fail(r, "ABSENT after a sector of bits (byte %zu) was lost",
                     (size_t)(sector - m->bytes));
    }
    memcpy(sector, kept, sizeof kept);
    tamis_filter_close(f);
}

/* On a lone filter, which is a file that the test may change. */
static void check_rot(const struct run *r, struct run *next, uint64_t hash)
{
    char path[2 * STEPS_PATH_BYTES];
    struct image m;
    for (size_t i = 0; i < r->promises.n_objects; i++) {
        const struct object *o = &r->promises.object[i];
        if (o->place != LONE || next->promises.object[i].standing != THERE)
            continue;
        path_in(&next->player, o->name, path);
        if (!map_image(path, &m))
            continue;
        check_rotten_slot(r, next, &m, SLOT_A);
        check_rotten_slot(r, next, &m, SLOT_B);
        check_lost_sector(next, &m, path, o, hash);
        munmap(m.bytes, m.n);
    }
}

/* ---- a state ---- */

/* The state's engine draws its steps from the state: the same again. */
static struct run *next_run(struct run *r, const struct disk_state *s, uint64_t hash)
{
    static struct run *runs[MAX_LEVEL];
    char image[RUN_PATH_BYTES];
    struct run **next = &runs[r->level + 1];
    if (!*next)
        *next = calloc(1, sizeof **next);
    if (!*next)
        abort();
    snprintf(image, sizeof image, "%.200s-%u", r->dir, r->level);
    tree_put(s, image);
    (*next)->workload = r->workload;
    (*next)->script = r->script;
    (*next)->promises = r->promises;
    (*next)->level = r->level + 1;
    (*next)->round = r->round;
    (*next)->event = 0;
    (*next)->parent = r;
    (*next)->now = NULL;
    (*next)->on_event = r->on_event;
    (*next)->fail_sync = (*next)->die_sync = 0;
    record_begin(*next, image, hash);
    run_player(*next);
    return *next;
}

static bool was_hurt(const struct promises *p)
{
    return p->n_kept > 0;
}

/* The engine knows nothing of a cut repair or backup: it repairs, or goes on first. A
 * power cut alone damages nothing: a repair finds nothing damaged. */
static void draw_engine(struct run *next, uint64_t hash, bool deep, char *text)
{
    struct promises *p = &next->promises;
    char name[NAME_BYTES], go_on[SCRIPT_BYTES];
    snprintf(name, sizeof name, "new%u", next->level);
    steps_go_on(p, &next->rng.state, name, go_on);
    const char *begin = "";
    static const char *const repairs[] = {
        "bare before; look; repair; now; look; repair 0 0 0 0; look; ",
        "dry; repair; now; look; repair 0 0 0 0; look; ",
        "repair; now; look; repair 0 0 0 0; look; "};
    unsigned how = hash / 512 % 4 < 2 ? hash / 512 % 4 : 2;
    if (was_hurt(p) && p->backup == NOT_THERE && next->parent->promises.backup)
        begin = "backup; ";
    else if (was_hurt(p) && !next->parent->promises.backup)
        begin = repairs[how || next->player.store ? how : 2];
    else if (p->store == NOT_THERE && next->parent->promises.store == COMING)
        begin = "init; now; open; "; /* its opening is not recorded */
    else if (p->store == THERE && !deep && !was_hurt(p) && hash / 512 % 8 == 0)
        begin = "mend; look; ";
    snprintf(text, SCRIPT_BYTES, "%.200s%.3800s", begin, go_on);
}

static void go_on(struct run *next, uint64_t hash, bool deep)
{
    char text[SCRIPT_BYTES];
    struct script script;
    draw_engine(next, hash, deep, text);
    if (!script_parse(text, &script))
        abort();
    if (deep) {
        tree_note(next, true);
        recording = next;
    }
    run_play(next, &script);
    if (recording)
        record_event(next);
    recording = NULL;
    run_play(next, &script); /* behind "now", if there is one */
}

void check_state(struct run *r, const struct disk_state *s, uint64_t hash, bool deep)
{
    const struct run *before = checked;
    struct look look = {0};
    r->now = s;
    struct run *next = next_run(r, s, hash);
    checked = next;
    steps_expect_kept(&next->player, &look);
    steps_expect(&next->player, &look);
    steps_expect_copy(&next->player, &look);
    if (hash % 4 == 0)
        check_rot(r, next, hash / 4);
    go_on(next, hash, deep);
    checked = next;
    steps_expect(&next->player, &look);
    steps_expect_kept(&next->player, &look);
    /* An unfinished catalog of a creation that was cut is swept by a repair. */
    for (const struct run *up = r; up; up = up->parent)
        next->player.lenient |= up->promises.store != THERE;
    if (!was_hurt(&next->promises))
        steps_expect_swept(&next->player);
    player_end(&next->player);
    record_end(next);
    checked = before;
    r->now = NULL;
}
