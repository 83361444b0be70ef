/* Makes a store with segments of every kind, and keeps what its files and its catalog
 * were on the way. */
#include "tests/rot/store.h"

static void note_catalog(struct shop *s)
{
    char path[PATH_BYTES + 20];
    CHECK(s->n_catalogs < MAX_CATALOGS);
    snprintf(path, sizeof path, "%s/catalog.lmdb", s->path);
    s->catalogs[s->n_catalogs++] = image_read(path);
}

static void find_file(struct shop *s, struct tamis_store *store, struct segment *g)
{
    struct tamis_snapshot *now;
    struct tamis_target t;
    struct tamis_segment_info info;
    CHECK(tamis_snapshot_current(store, &now, NULL) == 0);
    CHECK(tamis_snapshot_find(now, g->name, strlen(g->name), NULL, 0, 0, &t) == 0);
    CHECK(tamis_snapshot_segment(now, t.slot - 1, &info) == 0);
    int n = snprintf(g->path, sizeof g->path, "%s/%s", s->path, info.file);
    CHECK(n > 0 && (size_t)n < sizeof g->path);
    tamis_snapshot_release(now);
}

static size_t key_text(const struct segment *g, size_t i, char text[40])
{
    return (size_t)snprintf(text, 40, "%s-%06zu", g->name, i);
}

static void put_sealed(struct shop *s, struct tamis_store *store, struct segment *g,
                       double error)
{
    struct tamis_edit *edit;
    struct tamis_builder *b;
    char text[40];
    CHECK(tamis_edit_begin(store, &edit, NULL) == 0);
    CHECK(tamis_edit_builder(edit, g->name, strlen(g->name), error, NULL, &b, NULL) ==
          0);
    for (size_t i = 0; i < g->n_keys; i++)
        CHECK(tamis_builder_add_key(b, text, key_text(g, i, text)) == 0);
    CHECK(tamis_edit_put(edit, b, NULL) == 0);
    tamis_builder_free(b);
    CHECK(tamis_edit_commit(edit, NULL) == 0);
    find_file(s, store, g);
    g->sealed = true;
    g->now = image_read(g->path);
    note_catalog(s);
}

/* In three sessions, with commits; the file is remembered at each. */
static void put_growing(struct shop *s, struct tamis_store *store, struct segment *g,
                        uint64_t first_capacity, bool seal)
{
    struct tamis_growth growth = {0.3, 1.5, 0.5, first_capacity};
    struct tamis_edit *edit;
    struct tamis_writer *w = NULL;
    char text[40];
    size_t step = g->n_keys / 12 + 1;
    CHECK(tamis_edit_begin(store, &edit, NULL) == 0);
    CHECK(tamis_edit_put_growing(edit, g->name, strlen(g->name), &growth, NULL, NULL) ==
          0);
    CHECK(tamis_edit_commit(edit, NULL) == 0);
    find_file(s, store, g);
    for (size_t i = 0; i < g->n_keys; i++) {
        if (!w)
            CHECK(tamis_store_writer(store, g->name, strlen(g->name), &w, NULL) == 0);
        CHECK(tamis_writer_add_key(w, text, key_text(g, i, text)) == 0);
        if (i % step != step - 1)
            continue;
        CHECK(tamis_writer_commit(w, i + 1, NULL) == 0);
        CHECK(g->n_past < MAX_PAST);
        g->past[g->n_past++] = image_read(g->path);
        if (g->n_past % 4)
            continue;
        CHECK(tamis_writer_close(w) == 0);
        w = NULL;
        note_catalog(s);
    }
    if (!w)
        CHECK(tamis_store_writer(store, g->name, strlen(g->name), &w, NULL) == 0);
    if (seal)
        CHECK(tamis_writer_seal(w, g->n_keys, NULL, NULL) == 0);
    CHECK(tamis_writer_close(w) == 0);
    g->sealed = seal;
    g->n_noted = g->n_past; /* the last session is closed */
    g->now = image_read(g->path);
    note_catalog(s);
}

void shop_make(struct shop *s, const char *dir, const struct kind *kind)
{
    static const struct {
        const char *name;
        size_t n_keys;
        double error; /* 0: growing */
        uint64_t first_capacity;
        bool seal;
    } segments[N_SEGMENTS] = {
        {"page", 300, 0.01, 0, false},   {"pages", 9000, 0.01, 0, false},
        {"lanes", 3000, 1e-4, 0, false}, {"open", 900, 0, 2000, false},
        {"stages", 2500, 0, 300, false}, {"grown", 900, 0, 2000, true},
        {"harvest", 2500, 0, 300, true},
    };
    struct tamis_store_options o = {.size = sizeof o, .domain = &s->domain};
    struct tamis_store *store;
    memset(s, 0, sizeof *s);
    s->kind = kind;
    snprintf(s->path, sizeof s->path, "%s/store", dir);
    /* The domain of the other kinds of file, which are attached. */
    CHECK(tamis_domain_init(&s->domain, 1, 0x5eed) == 0);
    CHECK(tamis_store_create(s->path, &o, NULL) == 0);
    CHECK(tamis_store_open(s->path, &store, NULL) == 0);
    for (size_t i = 0; i < N_SEGMENTS; i++) {
        struct segment *g = &s->segments[s->n_segments++];
        g->name = segments[i].name;
        g->n_keys = segments[i].n_keys;
        if (segments[i].error > 0)
            put_sealed(s, store, g, segments[i].error);
        else
            put_growing(s, store, g, segments[i].first_capacity, segments[i].seal);
    }
    tamis_store_close(store);
}
