/* Stores of many segments, packed, and packers of numbered keys, for tests. */
#ifndef TAMIS_TESTS_STORE_PACKS_H
#define TAMIS_TESTS_STORE_PACKS_H

#include "store_kinds.h"

enum { MAX_SEGMENTS = 400 };

/* Segment i has keys i * 1000 .. + n_keys[i]. */
SHARED unsigned n_keys[MAX_SEGMENTS];

static UNUSED const char *name_of(unsigned i)
{
    static char names[8][32];
    static unsigned next;
    char *name = names[next++ % 8];
    snprintf(name, sizeof names[0], "s%u", i);
    return name;
}

/* Sealed segments of many sizes, every fifth without a key range. */
static UNUSED void put_sized(struct tamis_store *s, struct tamis_edit *e, unsigned n,
                             unsigned most)
{
    for (unsigned i = 0; i < n; i++) {
        struct tamis_segment_options so = {.size = sizeof so,
                                           .rank = i % 7,
                                           .watermark = 100 + i,
                                           .binding = name_of(i),
                                           .binding_bytes = strlen(name_of(i))};
        BUILDER b;
        n_keys[i] = 1 + (unsigned)random_below(most);
        OK(tamis_edit_builder(e, name_of(i), strlen(name_of(i)), 0.01, &so, &b, NULL));
        for (unsigned k = 0; k < n_keys[i]; k++) {
            struct tamis_key key = key_in(s, i * 1000 + k);
            add_to(b, i % 5 ? SEALED : BY_HASH, &key);
        }
        OK(tamis_edit_put(e, b, NULL, NULL));
    }
}

static UNUSED struct tamis_store *store_of(const char *name, unsigned n, unsigned most)
{
    struct tamis_store *s = store_new(name);
    struct tamis_edit *e = edit_new(s);
    put_sized(s, e, n, most);
    OK(tamis_edit_commit(e, NULL));
    return s;
}

static UNUSED struct tamis_packer *packer_of(struct tamis_edit *e)
{
    struct tamis_packer *p;
    OK(tamis_edit_packer(e, NULL, &p, NULL));
    return p;
}

/* A builder of segment i with keys i * 1000 .. + n. */
static UNUSED struct tamis_builder *builder_of(struct tamis_store *s,
                                               struct tamis_edit *e, unsigned i,
                                               unsigned n, double error,
                                               uint64_t memory_limit)
{
    struct tamis_segment_options so = {.size = sizeof so,
                                       .rank = i % 7,
                                       .watermark = 100 + i,
                                       .binding = name_of(i),
                                       .binding_bytes = strlen(name_of(i)),
                                       .memory_limit = memory_limit};
    struct tamis_builder *b;
    OK(tamis_edit_builder(e, name_of(i), strlen(name_of(i)), error, &so, &b, NULL));
    for (unsigned k = 0; k < n; k++) {
        struct tamis_key key = key_in(s, i * 1000 + k % 900);
        add_to(b, i % 5 ? SEALED : BY_HASH, &key);
    }
    return b;
}

static UNUSED void take(struct tamis_packer *p, struct tamis_builder *b, int want)
{
    IS(tamis_packer_take(p, b, NULL), want);
    tamis_builder_free(b);
}

/* Packed from their keys: segment i has `each` of them, from i * apart on. */
static UNUSED struct tamis_store *store_from_keys(unsigned n,
                                                  const char *(*name)(unsigned),
                                                  uint64_t each, uint64_t apart,
                                                  double error)
{
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    struct tamis_packer *p = packer_of(e);
    for (unsigned i = 0; i < n; i++) {
        BUILDER b;
        const char *now = name(i);
        OK(tamis_edit_builder(e, now, strlen(now), error, NULL, &b, NULL));
        for (uint64_t k = 0; k < each; k++) {
            struct tamis_key key = key_in(s, i * apart + k);
            OK(tamis_builder_add_hashes(b, key.tag, &key.hash, 1));
        }
        OK(tamis_packer_take(p, b, NULL));
    }
    OK(tamis_edit_put_packed(e, p, NULL, NULL));
    tamis_packer_free(p);
    OK(tamis_edit_commit(e, NULL));
    return s;
}

static UNUSED struct tamis_pack_report pack_with(struct tamis_store *s,
                                                 struct tamis_pack_options opt)
{
    struct tamis_pack_report report;
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    opt.size = sizeof opt;
    OK(tamis_edit_pack(e, snap, NULL, 0, &opt, &report, NULL));
    tamis_snapshot_release(snap);
    OK(tamis_edit_commit(e, NULL));
    return report;
}

static UNUSED struct tamis_pack_report pack_all(struct tamis_store *s)
{
    return pack_with(s, (struct tamis_pack_options){.size = 0});
}

static UNUSED struct tamis_pack_report pack_again(struct tamis_store *s,
                                                  enum tamis_repack repack)
{
    return pack_with(s, (struct tamis_pack_options){.repack = repack});
}

static UNUSED size_t index_of(struct tamis_snapshot *snap, unsigned segment)
{
    struct tamis_target t = found_in(snap, name_of(segment));
    return t.ordinal - 1;
}

/* The first half in one pack, the others in another. */
static UNUSED void pack_in_two(struct tamis_store *s)
{
    struct tamis_pack_options opt = {.size = sizeof opt};
    struct tamis_pack_report report;
    struct tamis_snapshot *snap = snapshot_of(s);
    uint32_t half[MAX_SEGMENTS], n = (uint32_t)tamis_snapshot_info(snap).n_segments / 2;
    for (uint32_t i = 0; i < n; i++)
        half[i] = i;
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_pack(e, snap, half, n, &opt, &report, NULL));
    IS(report.n_packed, n);
    OK(tamis_edit_commit(e, NULL));
    tamis_snapshot_release(snap);
    report = pack_all(s);
    IS(report.n_left[TAMIS_LEFT_PACKED], n);
}

/* The first by name: the order in which a directory is read may change by itself. */
static UNUSED const char *dead_file(void)
{
    static char path[900];
    char dir[600], first[256] = "";
    snprintf(dir, sizeof dir, "%s", path_of("s/filters"));
    DIR *d = opendir(dir);
    for (struct dirent *entry; (entry = readdir(d));)
        if (strstr(entry->d_name, ".dead") &&
            (!first[0] || strcmp(entry->d_name, first) < 0))
            snprintf(first, sizeof first, "%s", entry->d_name);
    closedir(d);
    snprintf(path, sizeof path, "%s/%s", dir, first);
    return path;
}

/* The file of the pack of store "s". */
static UNUSED const char *pack_file(void)
{
    static char path[900];
    const char *dead = dead_file();
    snprintf(path, sizeof path, "%.*s.tamis", (int)strlen(dead) - 5, dead);
    return path;
}

#endif
