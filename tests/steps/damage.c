/* Files that rot, go, or are too many; catalogs that are lost. */
#include "tests/steps/words.h"

#include "tests/support/store_internals.h"

static void must(bool ok)
{
    if (!ok)
        abort(); /* the test's own call */
}

/* ---- the file of an object ---- */

static uint64_t first_page(const char *path)
{
    struct tamis_filter_info info;
    struct tamis_filter *f;
    must(tamis_filter_open(path, NULL, &f, NULL) == 0);
    must(tamis_filter_info(f, &info, NULL) == 0);
    tamis_filter_close(f);
    return info.stages[0].offset;
}

/* Changes what lies behind each place of the catalog that has this: pages that are no
 * longer in use have it, too. */
static void spoil_catalog(const char *path, const void *what, size_t n, size_t behind)
{
    size_t n_bytes, found = 0;
    uint8_t *bytes = file_bytes(path, &n_bytes);
    const uint8_t *at = bytes, *end = bytes + n_bytes;
    for (; (at = memmem(at, (size_t)(end - at), what, n)) != NULL; at += n, found++)
        file_poke(path, (uint64_t)(at - bytes) + behind, "damage", 6);
    must(found > 0);
    free(bytes);
}

static void spoil_record(const struct player *p, const char *path)
{
    char catalog[2 * STEPS_PATH_BYTES], *end, byte[3] = "";
    uint8_t uuid[UUID_BYTES];
    const char *file = strrchr(path, '/') + 1;
    for (size_t i = 0; i < sizeof uuid; i++) {
        memcpy(byte, file + 2 * i, 2);
        uuid[i] = (uint8_t)strtoul(byte, &end, 16);
    }
    path_in_store(p, "catalog.lmdb", catalog);
    spoil_catalog(catalog, uuid, sizeof uuid, sizeof uuid + 8);
}

/* The first sector of the page that has bits. */
static uint64_t sector_with_bits(const char *path, uint64_t page)
{
    static const uint8_t zeros[SECTOR_BYTES];
    size_t n;
    uint8_t *bytes = file_bytes(path, &n);
    size_t at = (size_t)page;
    while (at < n && memcmp(bytes + at, zeros, sizeof zeros) == 0)
        at += sizeof zeros;
    free(bytes);
    return at;
}

int damage_file(struct player *p, const struct step *s)
{
    static const uint8_t zeros[PAGE_BYTES];
    struct object *o = promised_object(p->p, s->name[0]);
    const char *word = s->word->text;
    char path[2 * STEPS_PATH_BYTES];
    if (o->standing != THERE || o->bare)
        return 0;
    path_of_object(p, o, path);
    if (strcmp(word, "spoil") == 0) {
        player_end(p);
        spoil_record(p, path);
        o->worth = SPOILT;
        return 0;
    }
    o->worth = word[0] == 'l' ? GONE : ROTTEN;
    if (o->worth == GONE) {
        unlink(path);
        return 0;
    }
    uint64_t at = first_page(path);
    if (word[0] == 'z')
        file_poke(path, at, zeros, PAGE_BYTES);
    else if (word[0] == 's')
        file_poke(path, sector_with_bits(path, at), zeros, SECTOR_BYTES);
    else {
        size_t n;
        uint8_t *bytes = file_bytes(path, &n);
        at += (uint64_t)s->number[0] / 8 % PAGE_BYTES;
        uint8_t changed = bytes[at] ^ (uint8_t)(1U << (unsigned)s->number[0] % 8);
        file_poke(path, at, &changed, 1);
        free(bytes);
    }
    return 0;
}

/* ---- files too many ---- */

static void note_kept(struct player *p, const char *path, int object, bool sweepable)
{
    struct promises *q = p->p;
    must(q->n_kept < MAX_KEPT);
    struct kept *k = &q->kept[q->n_kept++];
    snprintf(k->name, sizeof k->name, "%s", strrchr(path, '/') + 1);
    k->hash = steps_file_hash(path);
    k->object = object;
    k->sweepable = sweepable;
}

/* A filter that no record names any more is there again, as after a drop whose unlink
 * was lost: of the segment, which has another by now, or ("stray") of none. */
int damage_twice(struct player *p, const struct step *s)
{
    struct object *o = promised_object(p->p, s->name[0]);
    bool stray = s->word->text[0] == 's';
    char path[2 * STEPS_PATH_BYTES];
    size_t n;
    if (o->standing != THERE || o->bare)
        return 0;
    path_of_object(p, o, path);
    uint8_t *bytes = file_bytes(path, &n);
    if (stray)
        play_text(p, "drop %s", o->name);
    else
        play_text(p, "replace %s %.0f %.0f", o->name, s->number[0], s->number[1]);
    file_put(path, bytes, n);
    free(bytes);
    if (!stray)
        o->worth = TWICE;
    note_kept(p, path, -1, !stray);
    return 0;
}

/* N: the sum of the names' bits. */
int damage_litter(struct player *p, const struct step *s)
{
    static const char *const names[] = {
        "filters/00112233445566778899aabbccddeeff.tamis.1234abcd.tmp",
        "catalog.lmdb.1234abcd.tmp", "filters/00112233445566778899aabbccddeeff.tamis",
        "filters/10112233445566778899aabbccddeeff.tamis"};
    char path[2 * STEPS_PATH_BYTES], from[2 * STEPS_PATH_BYTES];
    if (s->n_names == 0) {
        path_in_store(p, "", path);
        mkdir(path, 0700);
        path_in_store(p, "filters", path);
        mkdir(path, 0700);
        for (unsigned i = 0; i < 4; i++) {
            path_in_store(p, names[i], path);
            if ((unsigned)s->number[0] >> i & 1)
                file_put(path, "unfinished", i < 2 ? 10 : 0);
        }
        return 0;
    }
    path_in_store(p, "quarantine", path);
    mkdir(path, 0700);
    path_in_store(p, "quarantine/catalog.lmdb", path);
    file_put(path, "another", 7);
    path_of_object(p, promised_object(p->p, s->name[0]), from);
    snprintf(path, sizeof path, "%s/store/quarantine%s", p->dir, strrchr(from, '/'));
    file_put(path, "another", 7);
    return 0;
}

/* Puts an empty directory, over which a rename would succeed, in a backup's way. */
int damage_in_way(struct player *p, const struct step *s)
{
    char path[2 * STEPS_PATH_BYTES];
    (void)s;
    path_in(p, "copy", path);
    must(mkdir(path, 0700) == 0);
    p->p->in_way = true;
    return 0;
}

/* ---- the catalog ---- */

/* LMDB's file may end before the last page that it ever counted. */
static void count_more_pages(const char *path)
{
    enum { LAST_PAGE_AT = 136, META_BYTES_APART = 4096 };
    size_t n;
    uint8_t *bytes = file_bytes(path, &n);
    for (size_t at = LAST_PAGE_AT; at < (size_t)2 * META_BYTES_APART;
         at += META_BYTES_APART) {
        uint64_t last;
        memcpy(&last, bytes + at, sizeof last);
        must(last < 1000);
        last += 3;
        file_poke(path, at, &last, sizeof last);
    }
    free(bytes);
}

int damage_catalog(struct player *p, const struct step *s)
{
    static const uint8_t magic[] = {0x89, 'T', 'M', 'S'};
    const char *how = s->name[0];
    char path[2 * STEPS_PATH_BYTES], lock[2 * STEPS_PATH_BYTES];
    uint8_t garbage[2 * PAGE_BYTES] = {0};
    player_end(p);
    path_in_store(p, "catalog.lmdb", path);
    path_in_store(p, "catalog.lmdb-lock", lock);
    p->p->lost = strcmp(how, "short") != 0 && strcmp(how, "nofilters") != 0;
    if (p->p->lost)
        unlink(lock);
    if (strcmp(how, "gone") == 0) {
        unlink(path);
    } else if (strcmp(how, "meta") == 0) {
        spoil_catalog(path, magic, sizeof magic, 24);
    } else if (strcmp(how, "short") == 0) {
        count_more_pages(path);
    } else if (strcmp(how, "nofilters") == 0) {
        path_in_store(p, "filters", path);
        tree_remove(path);
        for (size_t i = 0; i < p->p->n_objects; i++)
            p->p->object[i].worth = GONE;
        p->p->closed = true;
        return 0;
    } else {
        for (size_t i = 0; i < sizeof garbage && how[0] != 'z'; i++)
            garbage[i] = (uint8_t)draw(&p->rng);
        file_poke(path, 0, garbage, sizeof garbage);
        must(how[0] != 'c' || truncate(path, sizeof garbage) == 0);
    }
    if (p->p->lost)
        promises_lose_catalog(p->p);
    if (p->p->lost && how[0] != 'g')
        note_kept(p, path, -1, false);
    return 0;
}

/* ---- what must not go away ---- */

int damage_keep(struct player *p, const struct step *s)
{
    char path[2 * STEPS_PATH_BYTES];
    (void)s;
    for (size_t i = 0; i < p->p->n_objects; i++) {
        const struct object *o = &p->p->object[i];
        if (o->place != IN_STORE || o->standing != THERE || o->bare || o->worth == GONE)
            continue;
        path_of_object(p, o, path);
        note_kept(p, path, (int)i, false);
    }
    return 0;
}
