/* Files of every kind, made by scripts, with their keys, their states at earlier
 * commits, and a catalog's facts about them. */
#include "tests/rot/rot.h"

enum { KEYS_ASKED = 6000 };

static const struct {
    const char *name, *word, *how; /* BUILT: the error; else the growth */
    size_t n;
    enum { IS_BUILT, IS_EMBEDDED, CLEAN, UNCLEAN, SEALED } ending;
} kinds[N_KINDS] = {
    {"sealed at birth, empty", "build", ".01", 0, IS_BUILT},
    {"sealed at birth, one page", "build", ".01", 2500, IS_BUILT},
    {"sealed at birth, two pages", "build", ".01", 4500, IS_BUILT},
    {"sealed at birth, six pages", "build", ".01", 16000, IS_BUILT},
    {"sealed at birth, two lanes", "build", ".0001", 3000, IS_BUILT},
    {"sealed at birth, four lanes", "build", "1e-8", 2000, IS_BUILT},
    {"embedded in another file", "embed", ".001", 5000, IS_EMBEDDED},
    {"two levels of digests", "build", ".01", 1750000, IS_BUILT},
    {"open, empty", "lone", "1000 2 .1", 0, CLEAN},
    {"open, one stage, clean", "lone", "6000 2 .1", 5000, CLEAN},
    {"open, one stage, unclean", "lone", "6000 2 .1", 5000, UNCLEAN},
    {"open, forty pages", "lone", "65000 2 .001", 5000, CLEAN},
    {"open, two stages, clean", "lone", "2000 1.5 .45", 4000, CLEAN},
    {"open, two stages, unclean", "lone", "2000 1.5 .45", 4000, UNCLEAN},
    {"open, five stages, clean", "lone", "600 1.5 .45", 5500, CLEAN},
    {"open, five stages, unclean", "lone", "600 1.5 .45", 5500, UNCLEAN},
    {"sealed after growing, one page", "lone", "3000 2 .3", 1200, SEALED},
    {"sealed after growing, one stage", "lone", "6000 2 .05", 4000, SEALED},
    {"sealed after growing, four stages", "lone", "800 1.5 .45", 5000, SEALED},
};

const char *kind_name(size_t i)
{
    return kinds[i].name;
}

struct image image_read(const char *path)
{
    struct image m;
    m.bytes = file_bytes(path, &m.n);
    return m;
}

bool image_decode(const struct image *m, uint64_t offset, struct identity *id,
                  struct commit *c)
{
    struct slot_health health;
    const uint8_t *filter = m->bytes + offset;
    size_t n = m->n - (size_t)offset;
    return identity_decode(filter, n, id).code == VERDICT_OK &&
           commit_choose_slot(filter, id, n, c, &health).code == VERDICT_OK;
}

/* ---- by scripts ---- */

/* Commits every 1/12 of the keys and remembers the file as it was then. */
static struct image grow(struct kind *k, struct player *p, size_t i, const char *name)
{
    char path[2 * STEPS_PATH_BYTES];
    size_t step = kinds[i].n / 12 + 1, done = 0;
    path_in(p, name, path);
    k->n_past = 0;
    for (; done + step < kinds[i].n; done += step) {
        play_text(p, "fill %s %zu; commit %s", name, step, name);
        k->past[k->n_past++] = image_read(path);
    }
    play_text(p, "fill %s %zu", name, kinds[i].n - done);
    k->n_acked = kinds[i].ending == UNCLEAN ? done : kinds[i].n;
    struct image unclean = image_read(path);
    if (kinds[i].ending == SEALED)
        play_text(p, "seal %s", name);
    play_text(p, "shut %s", name);
    return kinds[i].ending == UNCLEAN ? unclean : image_read(path);
}

/* The object's keys are those of its number. */
static struct image make(struct kind *k, struct player *p, size_t i, const char *name)
{
    char path[2 * STEPS_PATH_BYTES];
    uint32_t from = p->p->n_objects ? 4000000 : 0;
    path_in(p, name, path);
    k->n_acked = kinds[i].n;
    if (kinds[i].ending >= CLEAN) {
        play_text(p, "lone %s %s", name, kinds[i].how);
        return grow(k, p, i, name);
    }
    play_text(p, "%s %s %u %zu %s", kinds[i].word, name, from, kinds[i].n,
              kinds[i].how);
    return image_read(path);
}

/* Its slots, should they be believed, win and lack every later stage. */
static struct image make_ahead(struct player *p, size_t i)
{
    char path[2 * STEPS_PATH_BYTES];
    path_in(p, "ahead", path);
    play_text(p, "lone ahead %s", kinds[i].how);
    for (int n = 0; n <= 100; n++)
        play_text(p, "add ahead 1; commit ahead");
    play_text(p, "shut ahead");
    return image_read(path);
}

/* ---- and what is known of them ---- */

static void add_region(struct kind *k, uint64_t at, uint64_t n, enum part part)
{
    CHECK(k->n_regions < MAX_REGIONS);
    if (n)
        k->regions[k->n_regions++] = (struct region){k->offset + at, n, part};
}

static void add_record(struct kind *k, uint64_t at, uint64_t n)
{
    uint64_t stages = (uint64_t)k->commit.n_stages * STAGE_BYTES;
    add_region(k, at, STAGES_OFFSET, BITS_OF_HEADER);
    add_region(k, at + STAGES_OFFSET, stages, BITS_OF_NUMBERS);
    add_region(k, at + STAGES_OFFSET + stages, n - STAGES_OFFSET - stages,
               BITS_OF_HEADER);
}

void kind_look(struct kind *k)
{
    const struct commit *c = &k->commit;
    if (!image_decode(&k->now, k->offset, &k->id, &k->commit)) {
        add_region(k, 0, k->now.n, BITS_OF_HEADER); /* tombstones */
        return;
    }
    add_region(k, 0, 128, BITS_OF_NUMBERS);
    add_region(k, 128, IDENTITY_BYTES - 128, BITS_OF_HEADER);
    if (k->id.header_pages == 1) {
        add_record(k, commit_slot_offset(SLOT_BIRTH), BIRTH_BYTES);
    } else {
        add_region(k, IDENTITY_BYTES, PAGE_BYTES - IDENTITY_BYTES, BITS_OF_HEADER);
        add_record(k, commit_slot_offset(SLOT_A), SLOT_BYTES);
        add_record(k, commit_slot_offset(SLOT_B), SLOT_BYTES);
    }
    for (uint32_t i = 0; i < c->n_stages; i++) {
        const struct stage_desc *s = &c->stages[i];
        uint64_t n_pages = s->length / PAGE_BYTES;
        if (s->floors_offset)
            add_region(k, s->floors_offset, floors_bytes(n_pages), BITS_OF_FLOORS);
        if (s->digests_offset)
            add_region(k, s->digests_offset, digests_bytes(n_pages), BITS_OF_DIGESTS);
        add_region(k, s->offset, s->length, BITS_OF_STAGES);
    }
}

/* As the catalog's lower bounds are noted (R5): at the close, or at the last growth. */
static void look_as_catalog(struct kind *k, bool closed)
{
    k->known.size = sizeof k->known;
    k->known.uuid = k->id.uuid;
    k->known.min_sequence = k->commit.sequence;
    k->known.min_stages = k->commit.n_stages;
    if (k->commit.state == STATE_SEALED)
        k->known.table_digest = commit_table_digest(&k->commit);
    for (size_t i = k->n_past; i-- > 0 && !closed;) {
        struct identity id;
        struct commit c;
        CHECK(image_decode(&k->past[i], k->offset, &id, &c));
        if (c.n_stages == k->commit.n_stages)
            k->known.min_sequence = c.sequence;
    }
}

static bool in_stage(const struct kind *k, const struct stage_desc *s, uint64_t h,
                     uint64_t at[MAX_LANES])
{
    bool in = true;
    for (uint32_t lane = 0; lane < s->geometry.lanes; lane++) {
        at[lane] = s->offset + geometry_block_offset(&s->geometry, lane, h);
        in &= geometry_block_probe(k->now.bytes + k->offset + at[lane],
                                   s->geometry.words, h);
        h = geometry_next_lane(h);
    }
    return in;
}

static void find_focus(struct kind *k)
{
    uint64_t at[MAX_LANES];
    size_t n = (size_t)(k->commit.committed_bytes / PAGE_BYTES + 1) * sizeof *k->focus;
    k->focus = malloc(n);
    CHECK(k->focus);
    memset(k->focus, 0xff, n);
    for (size_t i = 0; i < k->n_acked; i++)
        for (uint32_t s = 0; s < k->commit.n_stages; s++) {
            const struct stage_desc *d = &k->commit.stages[s];
            if (!in_stage(k, d, k->keys[i], at))
                continue;
            for (uint32_t lane = 0; lane < d->geometry.lanes; lane++)
                k->focus[at[lane] / PAGE_BYTES][i % FOCUS] = (uint32_t)i;
        }
}

void kind_make(struct kind *k, size_t i, const char *dir)
{
    static struct promises promises;
    static const char *const names[] = {"now", "other", "ahead"};
    struct player p = {.p = &promises, .dir = dir};
    char path[2 * STEPS_PATH_BYTES];
    uint8_t bytes[8];
    memset(k, 0, sizeof *k);
    memset(&promises, 0, sizeof promises);
    k->name = kinds[i].name;
    k->offset = kinds[i].ending == IS_EMBEDDED ? PAGE_BYTES : 0;
    k->now = make(k, &p, i, "now");
    size_t n_past = k->n_past, n_acked = k->n_acked;
    struct kind other = {0};
    k->other = make(&other, &p, i, "other");
    if (kinds[i].ending >= CLEAN)
        k->ahead = make_ahead(&p, i);
    player_end(&p);
    for (size_t n = 0; n < 3; n++) {
        path_in(&p, names[n], path);
        unlink(path);
    }
    for (size_t n = 0; n < other.n_past; n++)
        free(other.past[n].bytes);
    k->n_past = n_past;
    k->n_acked = n_acked;
    k->n_keys = kinds[i].n;
    /* All pages of a large one have some of these. */
    k->large = k->now.n > 1 << 20;
    if (k->n_keys > KEYS_ASKED && k->n_acked == k->n_keys)
        k->n_keys = k->n_acked = KEYS_ASKED;
    k->keys = malloc((k->n_keys + 1) * sizeof *k->keys);
    CHECK(k->keys);
    for (size_t n = 0; n < k->n_keys; n++)
        k->keys[n] =
            key_number(promises.object[0].keys.range[0].from + (uint32_t)n, bytes).hash;
    kind_look(k);
    look_as_catalog(k, kinds[i].ending != UNCLEAN);
    find_focus(k);
}
