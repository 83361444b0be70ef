/* Two stores get the same edits; one of them packs, packs anew and unpacks at random.
 * No key is ABSENT from a segment that has it, in either store, however it is asked:
 * also with damage, an older catalog put back, or segments replaced while they are
 * packed. Where nothing is damaged, all other answers are those of the filter as it
 * must be after its folds, bit for bit. */
#include "alike_support.h"

/* ---- edits, the same in both ---- */

struct change {
    size_t i, first, n_keys;
    enum { DROP, PUT, PUT_BARE, PUT_GROWING } kind;
    bool drop_first;
    struct tamis_segment_options opt;
    double error;
};

static size_t log_uniform(size_t most)
{
    size_t bound = 1;
    while (bound < most && random_below(12))
        bound *= 2;
    return random_below(bound < most ? bound : most);
}

/* Chooses changes of different names for one edit. */
static size_t choose_changes(struct change changes[8])
{
    static const double errors[] = {0.01, 0.01, 0.01, 1e-3, 0.1, 1e-6};
    size_t n_changes = 1 + random_below(8), first = random_below(N_NAMES);
    for (size_t k = 0; k < n_changes; k++) {
        struct change *c = &changes[k];
        unsigned what = (unsigned)random_below(16);
        *c = (struct change){.i = (first + k * 7) % N_NAMES,
                             .first = random_below(UNIVERSE - MOST_KEYS),
                             .n_keys = log_uniform(MOST_KEYS),
                             .error = errors[random_below(6)]};
        c->drop_first = w.now.state[c->i] != GONE;
        c->kind = what == 0                   ? PUT_BARE
                  : what == 1                 ? PUT_GROWING
                  : what < 5 && c->drop_first ? DROP
                                              : PUT;
        c->opt = (struct tamis_segment_options){.size = sizeof c->opt,
                                                .rank = (uint32_t)random_below(5)};
    }
    return n_changes;
}

static void build(struct tamis_edit *e, const struct change *c, struct tamis_packer *p)
{
    BUILDER b;
    const char *name = label(c->i);
    OK(tamis_edit_builder(e, name, strlen(name), c->error, &c->opt, &b, NULL));
    for (size_t id = c->first; id < c->first + c->n_keys; id++) {
        const struct tamis_key *key = &w.keys[id];
        if (c->first % 3)
            OK(tamis_builder_add_key(b, key->bytes, key->n_bytes));
        else
            OK(tamis_builder_add_hashes(b, key->tag, &key->hash, 1));
    }
    if (p)
        OK(tamis_packer_take(p, b, NULL));
    else
        OK(tamis_edit_put(e, b, NULL, NULL));
}

static void apply(struct side *s, const struct change *changes, size_t n_changes)
{
    struct tamis_edit *e = edit_new(s->store);
    struct tamis_packer *p = NULL;
    if (s->packs && random_below(4) == 0)
        OK(tamis_edit_packer(e, NULL, &p, NULL));
    for (size_t k = 0; k < n_changes; k++) {
        const struct change *c = &changes[k];
        const char *name = label(c->i);
        if (c->drop_first)
            OK(tamis_edit_drop(e, name, strlen(name), NULL, NULL));
        if (c->kind == PUT)
            build(e, c, p);
        else if (c->kind == PUT_BARE)
            OK(tamis_edit_put_bare(e, name, strlen(name), NULL, NULL));
        else if (c->kind == PUT_GROWING)
            OK(tamis_edit_put_growing(e, name, strlen(name), NULL, NULL, NULL));
    }
    if (p)
        OK(tamis_edit_put_packed(e, p, NULL, NULL));
    tamis_packer_free(p);
    OK(tamis_edit_commit(e, NULL));
}

static void do_edit(void)
{
    struct change changes[8];
    size_t n_changes = choose_changes(changes);
    apply(&w.loose, changes, n_changes);
    apply(&w.packed, changes, n_changes);
    for (size_t k = 0; k < n_changes; k++) {
        const struct change *c = &changes[k];
        static const enum state states[] = {GONE, WHOLE, NO_BITS, GROWS};
        note_segment(c->i, states[c->kind]);
        for (size_t id = c->first; c->kind == PUT && id < c->first + c->n_keys; id++)
            note_key(c->i, id);
    }
    follow_all(&w.loose);
    follow_all(&w.packed);
    n.n_edits++;
}

/* ---- growing segments ---- */

static void write_side(struct side *s, size_t i, size_t first, size_t n_keys, bool seal)
{
    const char *name = label(i);
    WRITER writer = writer_of(s->store, name);
    for (size_t id = first; id < first + n_keys; id++)
        OK(tamis_writer_add_key(writer, w.keys[id].bytes, w.keys[id].n_bytes));
    OK(tamis_writer_commit(writer, writer->watermark + 1, NULL));
    if (seal)
        OK(tamis_writer_seal(writer, writer->watermark, NULL, NULL));
    s->version[i] = w.now.version[i];
    s->unsure[i] = true;
}

static void do_write(void)
{
    size_t first = random_below(UNIVERSE - 400), n_keys = random_below(400);
    bool seal = random_below(3) == 0;
    for (size_t i = 0; i < N_NAMES; i++) {
        if (w.now.state[i] != GROWS || random_below(2))
            continue;
        write_side(&w.loose, i, first, n_keys, seal);
        write_side(&w.packed, i, first, n_keys, seal);
        for (size_t id = first; id < first + n_keys; id++)
            note_key(i, id);
        w.now.state[i] = seal ? WHOLE : GROWS;
    }
}

/* ---- packs ---- */

static size_t pick(struct tamis_snapshot *snap, bool packed, uint32_t picked[N_NAMES])
{
    size_t k = 0, of = 1 + random_below(4);
    for (size_t i = 0; tamis_snapshot_next(snap, &i); i++)
        if ((!packed || tamis_snapshot_pack(snap, i, NULL, NULL, NULL) == 0) &&
            random_below(4) < of)
            picked[k++] = (uint32_t)i;
    return k;
}

/* Half of the time segments are replaced before the pack is published. */
static void do_pack(void)
{
    static const enum tamis_repack repacks[] = {TAMIS_REPACK_NONE, TAMIS_REPACK_ALL,
                                                TAMIS_REPACK_AUTO};
    struct tamis_pack_options opt = {.size = sizeof opt,
                                     .n_threads = (unsigned)random_below(3),
                                     .repack = repacks[random_below(3)]};
    struct tamis_pack_report report;
    uint32_t picked[N_NAMES];
    struct tamis_snapshot *snap = snapshot_of(w.packed.store);
    struct tamis_edit *e = edit_new(w.packed.store);
    size_t k = pick(snap, false, picked);
    bool all = opt.repack == TAMIS_REPACK_AUTO;
    OK(tamis_edit_pack(e, snap, all ? NULL : picked, k, &opt, &report, NULL));
    tamis_snapshot_release(snap);
    if (random_below(2))
        do_edit();
    OK(tamis_edit_commit(e, NULL));
    follow_all(&w.packed);
    n.n_packs += report.n_packed;
    n.n_repacked += report.n_repacked;
}

static void do_unpack(void)
{
    uint32_t picked[N_NAMES];
    struct tamis_snapshot *snap = snapshot_of(w.packed.store);
    struct tamis_edit *e = edit_new(w.packed.store);
    size_t k = pick(snap, true, picked);
    int rc = tamis_edit_unpack(e, snap, picked, k, NULL);
    tamis_snapshot_release(snap);
    if (rc == 0)
        OK(tamis_edit_commit(e, NULL));
    else
        tamis_edit_abort(e);
    assert_true(rc == 0 || rc == TAMIS_ERR_DAMAGED);
    follow_all(&w.packed);
    n.n_unpacks += rc ? 0 : k;
}

/* ---- reopened, an older catalog put back, damage ---- */

static void reopen(struct side *s)
{
    tamis_store_close(s->store);
    s->store = store_open(s->dir);
}

static void copy_catalog(const struct side *s, const char *from, const char *to)
{
    char a[64], b[64];
    snprintf(a, sizeof a, "%s%s", s->dir, from);
    snprintf(b, sizeof b, "%s%s", s->dir, to);
    file_copy(path_of(a), path_of(b));
    snprintf(a, sizeof a, "%s/catalog.lmdb-lock", s->dir);
    unlink(path_of(a));
}

static void keep_catalogs(void)
{
    struct side *sides[] = {&w.loose, &w.packed};
    for (size_t k = 0; k < 2; k++) {
        tamis_store_close(sides[k]->store);
        copy_catalog(sides[k], "/catalog.lmdb", "-then");
        sides[k]->store = store_open(sides[k]->dir);
    }
    w.then = w.now;
    w.kept = true;
}

/* An older list over the files of today: no key of then or of now is ABSENT from a
 * segment that it lists. */
static void put_back_catalog(struct side *s)
{
    static struct model both;
    both = w.then;
    for (size_t i = 0; i < N_NAMES; i++)
        for (size_t k = 0; k < sizeof both.has[i]; k++)
            both.has[i][k] |= w.now.has[i][k];
    tamis_store_close(s->store);
    copy_catalog(s, "/catalog.lmdb", "-now");
    copy_catalog(s, "-then", "/catalog.lmdb");
    s->store = store_open(s->dir);
    ask_side(s, &both);
    tamis_store_close(s->store);
    copy_catalog(s, "-now", "/catalog.lmdb");
    s->store = store_open(s->dir);
    n.n_put_back++;
}

/* A file in filters/, but none that grows: there, bits may be replaced unseen (SPEC.md
 * 7.3). Empty: there is none. */
static void choose_file(const struct side *s, char path[900])
{
    char dir[600], growing[N_NAMES][64];
    size_t n_growing = 0, n_seen = 0;
    struct tamis_snapshot *snap = snapshot_of(s->store);
    for (size_t i = 0; tamis_snapshot_next(snap, &i); i++) {
        struct tamis_segment_info info = segment_at(snap, i);
        if (info.state == TAMIS_SEGMENT_GROWING)
            snprintf(growing[n_growing++], 64, "%s", strchr(info.file, '/') + 1);
    }
    tamis_snapshot_release(snap);
    snprintf(dir, sizeof dir, "%s/filters", path_of(s->dir));
    DIR *d = opendir(dir);
    path[0] = 0;
    for (const struct dirent *e; (e = readdir(d));) {
        bool grows = e->d_name[0] == '.';
        for (size_t i = 0; i < n_growing; i++)
            grows |= strcmp(e->d_name, growing[i]) == 0;
        /* Packs, of which there are few, rather than others. */
        size_t weight = strstr(e->d_name, ".dead") ? 30 : 1;
        if (!grows && random_below(n_seen += weight) < weight)
            snprintf(path, 900, "%s/%s", dir, e->d_name);
    }
    closedir(d);
    char *ending = strstr(path, ".dead");
    if (ending && random_below(3))
        memcpy(ending, ".tamis", 7);
}

static void hurt_bytes(const char *path)
{
    static const uint8_t zeros[PAGE_BYTES];
    size_t n_bytes;
    FREED uint8_t *bytes = file_read(path, &n_bytes);
    /* It may have been cut to nothing before. */
    for (size_t times = n_bytes ? 1 + random_below(6) : 0; times > 0; times--) {
        uint64_t at = random_below(n_bytes);
        uint8_t other = (uint8_t)(bytes[at] ^ (1U << random_below(8)));
        if (random_below(3) == 0 && n_bytes > PAGE_BYTES)
            file_poke(path, at / PAGE_BYTES * PAGE_BYTES, zeros, PAGE_BYTES);
        else
            file_poke(path, at, &other, 1);
    }
    if (n_bytes && random_below(12) == 0)
        OK(truncate(path, (off_t)random_below(n_bytes)));
}

/* Else no edit of some name goes through any more, nor one that needs a tombstone. */
static bool edits_go_on(const struct side *s, const char *hurt)
{
    SNAPSHOT snap = snapshot_of(s->store);
    struct tamis_target t;
    bool known = !strstr(hurt, ".dead");
    for (size_t i = 0; i < N_NAMES; i++) {
        int rc = tamis_snapshot_find(snap, label(i), strlen(label(i)), NULL, 0, 0, &t);
        known &= rc == (w.now.state[i] == GONE ? TAMIS_ERR_NO_SEGMENT : 0);
    }
    return known;
}

/* For good: what a file of the store says is not exact any more. */
static void leave_hurt(struct side *s)
{
    for (size_t i = 0; i < N_NAMES; i++)
        s->unsure[i] = w.now.state[i] != GONE;
}

static void do_hurt(struct side *s)
{
    char path[900];
    choose_file(s, path);
    if (!path[0])
        return;
    file_copy(path, path_of("whole"));
    tamis_store_close(s->store);
    hurt_bytes(path);
    s->store = store_open(s->dir);
    bool stays = random_below(3) == 0 && edits_go_on(s, path);
    w.hurt = true;
    ask_side(s, &w.now);
    if (w.kept && random_below(4) == 0)
        put_back_catalog(s);
    w.hurt = false;
    if (stays) {
        leave_hurt(s);
    } else {
        tamis_store_close(s->store);
        file_copy(path_of("whole"), path);
        s->store = store_open(s->dir);
    }
    n.n_hurt++;
}

/* ---- all of it ---- */

static void side_begin(struct side *s, const char *dir, bool packs)
{
    *s = (struct side){.dir = dir, .packs = packs, .store = store_new(dir)};
}

static void side_end(struct side *s)
{
    tamis_store_close(s->store);
    remove_tree(s->dir);
    for (size_t i = 0; i < N_NAMES; i++)
        folded_free(&s->bits[i]);
}

static void do_one(void)
{
    static void (*const doings[])(void) = {do_edit, do_edit, do_edit,   do_pack,
                                           do_pack, do_pack, do_unpack, do_write};
    uint64_t what = random_below(13);
    if (what < 8)
        doings[what]();
    else if (what == 8)
        reopen(random_below(2) ? &w.loose : &w.packed);
    else if (what == 9)
        keep_catalogs();
    else if (what == 10 && w.kept)
        put_back_catalog(random_below(4) ? &w.packed : &w.loose);
    else
        do_hurt(random_below(4) ? &w.packed : &w.loose);
}

TEST(no_key_is_lost_in_packs)
{
    const unsigned wanted = by_form(1500000, 3000000);
    const char *pairs = getenv("TAMIS_TEST_PAIRS"); /* that are asked in every way */
    const unsigned long long n_pairs = pairs ? strtoull(pairs, NULL, 10) : 0;
    n_keys_of_all = pairs ? WAYS_KEYS : n_keys_of_all;
    while (n.n_there < wanted || n_compared < n_pairs) {
        w = (struct world){.kept = false};
        side_begin(&w.loose, "loose", false);
        side_begin(&w.packed, "packed", true);
        w.domain = tamis_store_domain(w.loose.store);
        for (size_t id = 0; id < UNIVERSE; id++) {
            static char text[UNIVERSE][16];
            snprintf(text[id], sizeof text[0], "key-%zu", id);
            w.keys[id] = tamis_key_of(&w.domain, text[id], strlen(text[id]));
        }
        for (unsigned steps = 60;
             steps > 0 && (n.n_there < wanted || n_compared < n_pairs); steps--) {
            do_one();
            ask_both();
        }
        side_end(&w.loose);
        side_end(&w.packed);
    }
    printf(
        "%llu pairs of a key and its segment, %llu lost; %llu answers as of the folded "
        "filter, %llu of them false positives\n%llu pairs asked in every way; %llu "
        "edits, %llu segments packed, %llu "
        "from packs, %llu unpacked; %llu times damage, %llu times an older catalog\n",
        n.n_there, n.n_lost, n.n_exact, n.n_false, n_compared, n.n_edits, n.n_packs,
        n.n_repacked, n.n_unpacks, n.n_hurt, n.n_put_back);
    assert_true(n.n_lost == 0 && n.n_exact > n.n_there && n.n_false > 0);
    assert_true(n.n_repacked > 0 && n.n_unpacks > 0 && n.n_hurt > 0 &&
                n.n_put_back > 0);
}

int main(void)
{
    const char *seed = getenv("TAMIS_TEST_SEED");
    random_state = seed ? strtoull(seed, NULL, 0) : 1;
    return run_listed_tests(dir_and_faults_on, dir_and_faults_off);
}
