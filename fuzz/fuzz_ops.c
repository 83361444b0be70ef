/* Operations: the input is a program for a store (edits, builders, writers, snapshots,
 * packs, reopening, files put back and damaged), played as steps of tests/steps, which
 * promise: no key that was added is ever ABSENT, each call returns what it must, and
 * what is listed is what was put.
 *
 * Input: pairs of bytes, what to do and with what. */
#include "fuzz/fuzz.h"

enum { N_NAMES = 4, MOST_STEPS = 48 };

static struct player player;
static bool is_hurt; /* a file was damaged: answers may be MAYBE for any reason */
static struct promises promises;

static const char *const names[N_NAMES] = {"a", "x/../y", "with\x01odd", "~n"};

static void returned(struct player *p, int rc, int expected, const char *call)
{
    (void)p;
    bool hurt = rc == TAMIS_ERR_DAMAGED || (rc < 0 && strstr(call, "unpack"));
    if (rc != expected && !(is_hurt && hurt))
        broken_steps("%s: %s", call, tamis_strerror(rc));
}

/* Another one beside the player, which has an edit of its own. */
static struct player *beside(void)
{
    static struct player p;
    MUST(with_store(&player));
    p = player;
    p.edit = NULL;
    p.packer = NULL;
    p.edit_failed = false;
    return &p;
}

static void check_now(void);

/* FUZZ_STEPS: the input in words. */
static __attribute__((format(printf, 2, 3))) void run_in(struct player *p,
                                                         const char *format, ...)
{
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (getenv("FUZZ_STEPS"))
        fprintf(stderr, "%s;%s ", text, p == &player ? "" : " # beside\n");
    play_text(p, "%s", text);
    if (p != &player)
        check_now();
}

static void check_now(void)
{
    struct look look = {.cache = true, .any_damage = is_hurt};
    uint8_t bytes[8];
    struct tamis_snapshot *s;
    static struct promises kept;
    kept = promises;
    steps_expect(&player, &look);
    if (player.edit) /* which has had no effect so far, and is not over */
        promises = kept;
    MUST(tamis_snapshot_current(player.store, &s, NULL) == 0);
    struct tamis_key key = key_number(1, bytes); /* an empty list proves nothing */
    MUST(tamis_snapshot_info(s).n_segments ||
         ASK(s, ALL, KEYS(&key, 1)) == TAMIS_MAYBE);
    tamis_snapshot_release(s);
}

/* ---- files put back over newer ones, and damaged ---- */

static struct saved_tree then, now;
static struct promises promised_then;

/* Closes the player's files and saves the store's files. */
static const char *close_for_files(struct saved_tree *to)
{
    static char path[2 * STEPS_PATH_BYTES];
    steps_expect_held(&player);
    player_end(&player);
    path_in_store(&player, "", path);
    save_store(to, path);
    return path;
}

static void close_store(void)
{
    tamis_store_close(player.store);
    player.store = NULL;
}

static void put_back_catalog(const struct saved_tree *from, const char *store)
{
    char lock[2 * STEPS_PATH_BYTES];
    path_in_store(&player, "catalog.lmdb-lock", lock);
    file_put_back(saved_named(from, "catalog.lmdb"), store);
    unlink(lock);
}

/* Asks a list for the keys of the segments that it has. */
static void ask_listed(struct tamis_snapshot *s, const struct promises *p)
{
    static struct promises listed;
    size_t index;
    listed = *p;
    for (size_t i = 0; i < listed.n_objects; i++)
        if (!find_segment(s, listed.object[i].name, &index))
            listed.object[i].standing = NOT_THERE;
    steps_ask(&player, s, &listed);
}

/* An older list over the files of today: no segment that it has lacks a key of then or
 * of now. */
static void old_catalog(void)
{
    struct tamis_snapshot *s;
    if (!then.n)
        return;
    const char *store = close_for_files(&now);
    put_back_catalog(&then, store);
    play_text(&player, "open");
    MUST(tamis_snapshot_current(player.store, &s, NULL) == 0);
    ask_listed(s, &promised_then);
    ask_listed(s, player.p);
    tamis_snapshot_release(s);
    close_store();
    put_back_catalog(&now, store);
    play_text(&player, "open");
    check_now();
}

/* Packs and tombstones that have gone come back under their names, or old tombstones
 * over the newer ones. They stay for a short time: with an old catalog they would be a
 * whole older store (SPEC.md 13.10, catalog put back). */
static void old_packs(bool tombstones, bool sweep)
{
    char path[2 * STEPS_PATH_BYTES];
    const char *store = close_for_files(&now);
    for (size_t i = 0; i < then.n; i++) {
        const struct saved_file *f = &then.files[i];
        bool is_there = saved_named(&now, f->name) != NULL;
        if (tombstones ? is_there && strstr(f->name, ".dead") : !is_there)
            file_put_back(f, store);
    }
    play_text(&player, "open");
    check_now();
    if (tombstones && sweep) { /* as after a writer that died before it set them */
        play_text(&player, "begin; abort");
        return;
    }
    close_store();
    for (size_t i = 0; i < then.n; i++) {
        path_in_store(&player, then.files[i].name, path);
        if (!saved_named(&now, then.files[i].name))
            unlink(path);
    }
    tree_put_back(&now, store);
    play_text(&player, "open");
}

/* ---- damage ---- */

/* Bits of an open stage may be replaced unseen (SPEC.md 7.3): its file is left. */
static bool grows(const char *name)
{
    struct tamis_snapshot *s;
    struct tamis_segment_info info;
    bool found = false;
    MUST(tamis_snapshot_current(player.store, &s, NULL) == 0);
    for (size_t i = 0; tamis_snapshot_next(s, &i); i++) {
        MUST(tamis_snapshot_segment(s, i, &info) == 0);
        found |= info.state == TAMIS_SEGMENT_GROWING && strcmp(info.file, name) == 0;
    }
    tamis_snapshot_release(s);
    return found;
}

/* From now on any segment may be hurt: as if one that is never there were. */
static void note_hurt(void)
{
    is_hurt = true;
    promised_object(player.p, "hurt")->worth = ROTTEN;
}

static void damage(uint8_t what, uint8_t arg)
{
    uint64_t rng = arg;
    const char *store = close_for_files(&now);
    play_text(&player, "open");
    for (size_t i = 1; i < now.n; i++) {
        struct saved_file *f = &now.files[(arg + i) % now.n];
        if (strncmp(f->name, "filters/", 8) != 0 || grows(f->name) || !f->n)
            continue;
        size_t at = draw_below(&rng, f->n), n = what & 8 ? 1 : PAGE_BYTES;
        if (n > 1)
            at -= at % PAGE_BYTES;
        for (size_t k = at; k < f->n && k < at + n; k++)
            f->bytes[k] = n > 1 ? 0 : (uint8_t)(f->bytes[k] ^ (1 + arg % 255));
        close_store();
        file_put_back(f, store);
        note_hurt();
        play_text(&player, "open");
        break;
    }
    check_now();
}

static void step_files(uint8_t what, uint8_t arg)
{
    switch (what % 8) {
    case 0:
    case 1:
        close_for_files(&then);
        promised_then = *player.p;
        play_text(&player, "open");
        break;
    case 2:
    case 3:
    case 4:
        old_catalog();
        break;
    case 5:
    case 6:
        old_packs(what % 8 == 6, what & 8);
        break;
    default:
        damage(what, arg);
        break;
    }
}

static void files_end(void)
{
    tree_forget(&then);
    tree_forget(&now);
}

/* ---- steps ---- */

/* Names whose bit is set. */
static const char *some(uint8_t mask)
{
    static char text[N_NAMES * (NAME_BYTES + 1) + 1];
    size_t n = 0;
    text[0] = 0;
    for (size_t i = 0; i < N_NAMES; i++)
        if (mask >> i & 1)
            n += (size_t)sprintf(text + n, " %s", names[i]);
    return text;
}

static void begin(void)
{
    if (!player.edit)
        run_in(&player, "begin");
}

static void commit(void)
{
    if (player.edit)
        run_in(&player, "end");
    check_now();
}

/* Calls that the steps do not try: a watermark that goes back, and calls for a filter
 * that does not grow, or no longer. */
static void expect_refused(size_t i, bool sealed)
{
    const struct object *o = promised_object(&promises, names[i]);
    struct tamis_writer *w = player.writer[o - promises.object];
    if (w && sealed)
        MUST(tamis_writer_add_key(w, "late", 4) == TAMIS_ERR_SEALED);
    else if (w && o->watermark && o->seal == NOT_THERE)
        MUST(tamis_writer_commit(w, o->watermark - 1, NULL) == TAMIS_ERR_RANGE);
    else if (!w && (o->standing == NOT_THERE || (o->standing == THERE && !o->grows)))
        MUST(tamis_store_writer(player.store, NAME_OF(o), NULL, &w, NULL) ==
             (o->standing == NOT_THERE || o->bare ? TAMIS_ERR_NO_SEGMENT
                                                  : TAMIS_ERR_SEALED));
}

/* A snapshot that is held lives longer than its store. */
static void reopen(void)
{
    struct tamis_snapshot *held = player.held;
    struct promises *promised = player.promised_then;
    player.held = NULL;
    player.promised_then = NULL;
    player_end(&player);
    player.held = held;
    player.promised_then = promised;
    run_in(&player, "open");
}

static void step_pack(uint8_t what, uint8_t arg)
{
    static const enum tamis_repack repacks[] = {TAMIS_REPACK_NONE, TAMIS_REPACK_ALL,
                                                TAMIS_REPACK_ALL, TAMIS_REPACK_AUTO};
    const struct object *o = promised_object(&promises, names[what / 16 % N_NAMES]);
    char pack[120];
    snprintf(pack, sizeof pack, "pack%s %d %d", some(arg), (int)repacks[arg >> 5 & 3],
             arg >> 7);
    switch (what % 8) {
    case 0:
    case 1: /* with whatever else the edit does */
        begin();
        run_in(&player, "%s", pack);
        break;
    case 2:
        run_in(beside(), "%s 1", pack);
        break;
    case 3:
        if (*some(arg))
            run_in(beside(), "unpack%s", some(arg));
        break;
    case 4: /* which the edit at work has nothing to do with */
        if (o->standing == THERE && !o->bare && !o->grows)
            run_in(beside(), "replace %s %u 60", o->name, 1000 + arg);
        break;
    default:
        run_in(beside(), "%s", pack);
        break;
    }
}

static void step(uint8_t what, uint8_t arg)
{
    size_t i = what / 16 % N_NAMES;
    switch (what % 16) {
    case 0:
    case 1: /* of even sets the bytes, of others hashes alone */
        begin();
        run_in(&player, "put %s %u %u", names[i], arg * 2 + (arg >> 7), arg % 100);
        break;
    case 2:
        begin();
        run_in(&player, "bare %s", names[i]);
        break;
    case 3:
    case 4:
        begin();
        run_in(&player, "grow %s", names[i]);
        break;
    case 5:
        begin();
        run_in(&player, "drop %s", names[i]);
        break;
    case 6:
        begin();
        run_in(&player, "only%s", some(arg));
        break;
    case 7:
        commit();
        break;
    case 8:
        run_in(&player, "abort");
        break;
    case 9:
        expect_refused(i, false);
        run_in(&player, "writer %s", names[i]);
        break;
    case 10:
        run_in(&player, "fill %s 64", names[i]);
        break;
    case 11:
        expect_refused(i, false);
        run_in(&player, "commit %s", names[i]);
        break;
    case 12:
        run_in(&player, "seal %s", names[i]);
        expect_refused(i, promised_object(&promises, names[i])->seal == THERE);
        run_in(&player, "shut %s", names[i]);
        break;
    case 13:
        run_in(&player, "shut %s", names[i]);
        break;
    case 14:
        run_in(&player, "hold");
        break;
    default:
        reopen();
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_calm_io();
    memset(&promises, 0, sizeof promises);
    is_hurt = false;
    player = (struct player){.p = &promises, .dir = fuzz_dir(), .returned = returned};
    run_in(&player, "init; open");
    for (size_t i = 0; i + 1 < n && i < 2 * MOST_STEPS; i += 2) {
        if (data[i] / 64 == 1)
            step_pack(data[i], data[i + 1]);
        else if (data[i] / 64 == 2)
            step_files(data[i], data[i + 1]);
        else
            step(data[i], data[i + 1]);
    }
    steps_expect_held(&player);
    check_now();
    reopen();
    check_now();
    steps_expect_held(&player);
    player_end(&player);
    char path[2 * STEPS_PATH_BYTES];
    path_in_store(&player, "", path);
    tree_remove(path);
    files_end();
    return 0;
}

/* Half of the time a step that does something, put somewhere. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    uint64_t rng = seed;
    n &= ~(size_t)1;
    if (draw_below(&rng, 2) || n + 2 > max)
        return LLVMFuzzerMutate(data, n, max);
    size_t at = draw_below(&rng, n / 2 + 1) * 2;
    memmove(data + at + 2, data + at, n - at);
    data[at] = (uint8_t)draw_below(&rng, 192);
    data[at + 1] = (uint8_t)draw(&rng);
    return n + 2;
}
