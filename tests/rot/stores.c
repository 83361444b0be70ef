/* The same in a store: files that rot, go, come back older or change places; records of
 * the catalog that rot; older catalogs; attaching what is damaged. Every damage is met
 * by a store that is opened afresh. */
#include "tests/rot/rot.h"

enum { PATH_BYTES = 2 * STEPS_PATH_BYTES, KEYS_ASKED = 160, MAX_CATALOGS = 40 };
/* Damages of a file; as many as go with `every`. */
enum { DAMAGES = 4800 };

static struct segment {
    const char *name, *put;
    size_t n_keys; /* of a growing one, which is filled in three sessions */
    bool seal;
    char path[PATH_BYTES];
    struct kind kind;
    size_t n_noted; /* past: those that the catalog must know to be older */
} segments[] = {
    {.name = "page", .put = "put page 0 300 .01"},
    {.name = "pages", .put = "put pages 10000 9000 .01"},
    {.name = "lanes", .put = "put lanes 20000 3000 .0001"},
    {.name = "ribbon", .put = "ribbon ribbon 30000 3000 .01"},
    {.name = "listed", .put = "list listed 40000 3000 .01"},
    {.name = "open", .put = "grow open 2000 1.5 .3", .n_keys = 900},
    {.name = "stages", .put = "grow stages 300 1.5 .3", .n_keys = 2500},
    {.name = "grown", .put = "grow grown 2000 1.5 .3", .n_keys = 900, .seal = true},
    {.name = "harvest", .put = "grow harvest 300 1.5 .3", .n_keys = 2500, .seal = true},
};
enum { N_SEGMENTS = sizeof segments / sizeof segments[0] };

static struct promises promises;
static struct player player = {.p = &promises};
static struct image catalogs[MAX_CATALOGS]; /* as they were */
static size_t n_catalogs;

static bool is_open(const struct segment *g)
{
    return g->n_keys && !g->seal;
}

/* ---- made by scripts ---- */

static struct image read_catalog(void)
{
    char path[PATH_BYTES];
    path_in_store(&player, "catalog.lmdb", path);
    return image_read(path);
}

static void note_catalog(void)
{
    CHECK(n_catalogs < MAX_CATALOGS);
    catalogs[n_catalogs++] = read_catalog();
}

/* With commits; the file is remembered at each. */
static void grow(struct segment *g)
{
    struct kind *k = &g->kind;
    size_t step = g->n_keys / 12 + 1;
    for (size_t n = step; n <= g->n_keys; n += step) {
        play_text(&player, "fill %s %zu; commit %s", g->name, step, g->name);
        CHECK(k->n_past < MAX_PAST);
        k->past[k->n_past++] = image_read(g->path);
        if (k->n_past % 4)
            continue;
        play_text(&player, "shut %s", g->name);
        note_catalog();
    }
    play_text(&player, "fill %s %zu", g->name, g->n_keys % step);
    play_text(&player, g->seal ? "seal %s; shut %s" : "shut %s; shut %s", g->name,
              g->name);
    g->n_noted = k->n_past; /* the last session is closed */
}

static void make(const char *dir)
{
    player.dir = dir;
    play_text(&player, "init; open");
    for (size_t i = 0; i < N_SEGMENTS; i++) {
        struct segment *g = &segments[i];
        play_text(&player, "%s", g->put);
        path_of_object(&player, promised_object(&promises, g->name), g->path);
        if (g->n_keys)
            grow(g);
        g->kind.now = image_read(g->path);
        note_catalog();
    }
    player_end(&player);
}

/* ---- asking ---- */

/* Asks for keys of one segment, with and without their bytes (key ranges). */
static void ask_segment(struct tamis_snapshot *now, const struct object *o,
                        bool may_be_lost, const char *what)
{
    struct tamis_target t;
    uint8_t bytes[8];
    bool seen = false;
    uint32_t n_keys = o->grows ? o->n_done : o->keys.range[0].n;
    int rc = tamis_snapshot_find(now, o->name, strlen(o->name), NULL, 0, 0, &t);
    /* A catalog need not list every segment: an older one may lack some. */
    bool listed = rc != TAMIS_ERR_NO_SEGMENT;
    for (uint32_t n = 0; n < KEYS_ASKED; n++) {
        uint32_t i = n < 2 ? n * (n_keys - 1) : (uint32_t)random_below(n_keys);
        struct tamis_key key = key_number(o->keys.range[0].from + i, bytes);
        if (n % 2)
            key.bytes = NULL;
        bool absent = tamis_snapshot_probe(now, &t, &key, NULL) == TAMIS_ABSENT ||
                      ASK(now, LIST(&t, 1), KEYS(&key, 1)) == TAMIS_ABSENT ||
                      (listed && ASK(now, ALL, KEYS(&key, 1)) == TAMIS_ABSENT);
        if (absent && !may_be_lost)
            lost("segment %s, key %u: %s", o->name, i, what);
        seen |= absent;
    }
    tally->exceptions[PUT_BACK] += seen;
}

/* may_be_lost: an older copy of this open filter, no older than its last growth, lies
 * there; SPEC.md names what that may lose. */
static void ask(const struct segment *may_be_lost, const char *what)
{
    char path[PATH_BYTES];
    struct tamis_store *store = NULL;
    struct tamis_snapshot *now = NULL;
    path_in_store(&player, "", path);
    tamis_store_open(path, NULL, &store, NULL);
    tally->n[OF_A_STORE]++;
    if (store && tamis_snapshot_current(store, &now, NULL) == 0)
        for (size_t i = 0; i < N_SEGMENTS; i++)
            ask_segment(now, promised_object(&promises, segments[i].name),
                        &segments[i] == may_be_lost, what);
    tamis_snapshot_release(now);
    tamis_store_close(store);
}

static void ask_replaced(struct file *f, const struct image *by,
                         const struct segment *may_be_lost, const char *what)
{
    struct damages d = {{{.what = REPLACE, .from = by}}, 1, WHOLE};
    damage_do(f, &d);
    ask(may_be_lost, what);
    file_look(f);
    file_mend(f);
}

/* ---- files ---- */

static void put_back_and_exchange(void)
{
    for (size_t i = 0; i < N_SEGMENTS; i++) {
        struct segment *g = &segments[i];
        struct file f, other;
        file_open(&f, &g->kind, g->path);
        for (size_t n = 0; n < g->kind.n_past; n++)
            if (trial()) /* closed since: the catalog knows */
                ask_replaced(&f, &g->kind.past[n],
                             n >= g->n_noted && is_open(g) ? g : NULL,
                             "an older copy put back");
        for (size_t k = 0; k < N_SEGMENTS; k++) {
            struct damages d = {{{.what = REPLACE, .from = &g->kind.now}}, 1, WHOLE};
            if (k == i || !trial())
                continue;
            file_open(&other, &segments[k].kind, segments[k].path);
            damage_do(&other, &d);
            ask_replaced(&f, &segments[k].kind.now, NULL, "two files exchanged");
            file_mend(&other);
            file_close(&other);
        }
        file_close(&f);
    }
    ask(NULL, "nothing, any more");
}

/* Noise and foreign sectors may mask losses in open stages. */
static struct damage one_damage(const struct kind *k, bool open, uint64_t near)
{
    struct damage d = damage_random(k, near);
    while (open && (d.what == NOISE || d.what == COPY))
        d = damage_random(k, near);
    return d;
}

static void rot_file(const char *path, uint64_t n_damages)
{
    struct kind k = {.now = image_read(path), .other = segments[0].kind.now};
    struct file f;
    char away[PATH_BYTES + 310];
    bool open = false;
    for (size_t i = 0; i < N_SEGMENTS; i++)
        open |= is_open(&segments[i]) && strcmp(segments[i].path, path) == 0;
    kind_look(&k);
    file_open(&f, &k, path);
    for (uint64_t n = 0; n < n_damages; n++) {
        if (!trial())
            continue;
        struct damages d = {{one_damage(&k, open, 0)}, open ? 1 : 1 + n % 2, TWO};
        d.of[1] = one_damage(&k, open, d.of[0].at);
        damage_do(&f, &d);
        ask(NULL, damage_say(&d));
        file_mend(&f);
    }
    file_close(&f);
    snprintf(away, sizeof away, "%s.away", path);
    CHECK(rename(path, away) == 0);
    if (trial())
        ask(NULL, "its file is gone");
    CHECK(rename(away, path) == 0);
    free(k.now.bytes);
}

static int is_file(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

/* Rots the files of segments, lists, packs and tombstones. */
static void rot_files(uint64_t n_damages)
{
    char dir[PATH_BYTES], path[PATH_BYTES + 300];
    struct dirent **names;
    path_in_store(&player, "filters", dir);
    int n = scandir(dir, &names, is_file, alphasort);
    CHECK(n > 0);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
        rot_file(path, n_damages);
        free(names[i]);
    }
    free(names);
}

/* ---- the catalog ---- */

static void open_catalog(struct file *f, struct kind *k)
{
    char path[PATH_BYTES];
    path_in_store(&player, "catalog.lmdb", path);
    *k = (struct kind){.now = read_catalog()};
    file_open(f, k, path);
}

static void rot_record(struct file *f, size_t at)
{
    /* The value alone, 248 bytes and the keys of its range. */
    const uint8_t *m = f->kind->now.bytes + at;
    size_t n = 248 + (size_t)(m[-28] + m[-26]);
    for (size_t bit = at % every; bit < n * 8; bit += every) {
        struct damages d = {
            {{.at = at - 32 + bit / 8, .n = 1, .value = bit % 8}}, 1, BITS_OF_HEADER};
        if (!trial())
            continue;
        damage_do(f, &d);
        ask(NULL, "a bit of a record");
        file_mend(f);
    }
}

/* Records are found by their filter's uuid; LMDB's own pages are trusted (SPEC.md
 * section 13). Older versions of a record may lie about in free pages, too. */
static void rot_catalog(void)
{
    struct kind k;
    struct file f;
    open_catalog(&f, &k);
    for (size_t i = 0; i < N_SEGMENTS; i++)
        for (size_t at = 32; at + 400 < k.now.n; at++)
            if (memcmp(k.now.bytes + at, segments[i].kind.now.bytes + 40, UUID_BYTES) ==
                0)
                rot_record(&f, at);
    for (size_t i = 0; i < n_catalogs; i++)
        if (trial())
            ask_replaced(&f, &catalogs[i], NULL, "an older catalog put back");
    file_close(&f);
    free(k.now.bytes);
}

/* ---- attach ---- */

static void attach_one(struct tamis_store *store, const struct kind *k,
                       const char *path, const char *what)
{
    struct tamis_edit *edit;
    struct tamis_snapshot *now;
    struct tamis_target t;
    struct tamis_filter *filter;
    struct tamis_verify report;
    tally->n[ATTACHED]++;
    CHECK(tamis_edit_begin(store, NULL, &edit, NULL) == 0);
    if (tamis_edit_attach(edit, "attached", 8, path, NULL, NULL) != 0) {
        tally->n[ATTACH_REFUSED]++;
        tamis_edit_abort(edit);
        return;
    }
    CHECK(tamis_edit_commit(edit, NULL) == 0);
    CHECK(tamis_snapshot_current(store, &now, NULL) == 0);
    CHECK(tamis_snapshot_find(now, "attached", 8, NULL, 0, 0, &t) == 0);
    for (size_t i = 0; i < k->n_acked; i++) {
        struct tamis_key key = {.tag = steps_domain().tag, .hash = k->keys[i]};
        if (tamis_snapshot_probe(now, &t, &key, NULL) == TAMIS_ABSENT)
            lost("%s attached, key %zu: %s", k->name, i, what);
    }
    CHECK(tamis_snapshot_filter(now, t.ordinal - 1, &filter, NULL) == 0);
    tamis_filter_verify(filter, &report, NULL);
    if (report.n_damaged)
        lost("%s attached with damaged pages: %s", k->name, what);
    tamis_snapshot_release(now);
    CHECK(tamis_edit_begin(store, NULL, &edit, NULL) == 0);
    CHECK(tamis_edit_drop(edit, "attached", 8, NULL, NULL) == 0);
    CHECK(tamis_edit_commit(edit, NULL) == 0);
}

/* Two copies of pages may have made it that, whole: nobody can tell it is not the one
 * that was meant ("exchanged", SPEC.md 7.3). */
static bool is_another(const struct file *f)
{
    const struct image *other = &f->kind->other;
    return f->n == other->n && memcmp(f->bytes, other->bytes, f->n) == 0;
}

static void attach_damaged(struct tamis_store *store, const struct kind *k)
{
    struct file f;
    file_open(&f, k, NULL);
    attach_one(store, k, f.path, "whole");
    for (uint64_t n = 0; n < DAMAGES / every; n++) {
        if (!trial())
            continue;
        struct damages d = {{damage_random(k, 0)}, 1 + n % 2, TWO};
        d.of[1] = damage_random(k, d.of[0].at);
        damage_do(&f, &d);
        if (!is_another(&f))
            attach_one(store, k, f.path, damage_say(&d));
        file_mend(&f);
    }
    file_close(&f);
}

void stores_try(const char *dir)
{
    static const size_t attached[] = {1, 3, 4, 16, 18};
    static struct kind k;
    make(dir);
    ask(NULL, "nothing");
    put_back_and_exchange();
    rot_catalog();
    rot_files(DAMAGES / every);
    play_text(&player, "pack; close");
    ask(NULL, "nothing, packed");
    rot_files(2 * DAMAGES / every);
    rot_catalog();
    play_text(&player, "open");
    for (size_t i = 0; i < sizeof attached / sizeof attached[0]; i++) {
        kind_make(&k, attached[i], dir);
        attach_damaged(player.store, &k);
    }
    player_end(&player);
}
