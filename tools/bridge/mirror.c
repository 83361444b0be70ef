/* The binding of a segment says which database it is of. */
#include "mirror.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ENGINE_BYTES = 7, TAG_BYTES = MIRROR_TAG_BYTES - 1 };

static const char leveldb[] = "leveldb", rocksdb[] = "rocksdb";

void tamis_mirror_tag(char tag[MIRROR_TAG_BYTES], const char *engine,
                      const void *identity, size_t n_bytes)
{
    struct tamis_domain seed_0;
    tamis_domain_init(&seed_0, 1, 0);
    snprintf(tag, MIRROR_TAG_BYTES, "%.7s:%016" PRIx64, engine,
             tamis_key_of(&seed_0, identity, n_bytes).hash);
}

/* The tag of a binding of ours, or NULL. */
static const uint8_t *tag_of(const struct tamis_segment_info *info)
{
    const uint8_t *b = info->binding;
    if (info->binding_bytes < TAG_BYTES ||
        (info->binding_bytes > TAG_BYTES && b[TAG_BYTES] != '/') ||
        b[ENGINE_BYTES] != ':' ||
        (memcmp(b, leveldb, ENGINE_BYTES) != 0 &&
         memcmp(b, rocksdb, ENGINE_BYTES) != 0))
        return NULL;
    for (size_t i = ENGINE_BYTES + 1; i < TAG_BYTES; i++)
        if ((b[i] < '0' || b[i] > '9') && (b[i] < 'a' || b[i] > 'f'))
            return NULL;
    return b;
}

enum mirror_owner tamis_mirror_owner(const char *tag,
                                     const struct tamis_segment_info *info)
{
    if (info->state == 0)
        return MIRROR_UNREADABLE;
    const uint8_t *theirs = tag_of(info);
    if (theirs != NULL && memcmp(theirs, tag, TAG_BYTES) == 0)
        return MIRROR_THIS;
    if (theirs != NULL)
        return memcmp(theirs, tag, ENGINE_BYTES) == 0 ? MIRROR_DATABASE : MIRROR_ENGINE;
    return MIRROR_OTHER;
}

const char *tamis_mirror_owner_words(const char *tag, enum mirror_owner owner)
{
    static const char *const words[][2] = {
        [MIRROR_THIS] = {"this database", "this database"},
        [MIRROR_DATABASE] = {"another RocksDB database", "another LevelDB database"},
        [MIRROR_ENGINE] = {"a LevelDB database", "a RocksDB database"},
        [MIRROR_OTHER] = {"no database", "no database"},
        [MIRROR_UNREADABLE] = {"an unreadable record", "an unreadable record"}};
    return words[owner][memcmp(tag, leveldb, ENGINE_BYTES) == 0];
}

bool tamis_mirror_same_file(const struct tamis_segment_info *info, const char *binding)
{
    size_t n = strlen(binding);
    return n > TAG_BYTES && info->binding_bytes == n && tag_of(info) != NULL &&
           memcmp(info->binding, binding, ENGINE_BYTES) == 0 &&
           memcmp(info->binding + TAG_BYTES, binding + TAG_BYTES, n - TAG_BYTES) == 0;
}

/* ---- the whole store ---- */

size_t tamis_mirror_find(struct tamis_snapshot *snapshot, const char *name,
                         size_t n_bytes, struct tamis_segment_info *info)
{
    struct tamis_target target;
    tamis_snapshot_find(snapshot, name, n_bytes, NULL, 0, 0, &target);
    return target.ordinal && !tamis_snapshot_segment(snapshot, target.ordinal - 1, info)
               ? target.ordinal - 1
               : SIZE_MAX;
}

bool tamis_mirror_refuses(struct tamis_snapshot *snapshot, const char *tag,
                          char words[MIRROR_WORDS_BYTES])
{
    struct tamis_segment_info info, first[N_MIRROR_OWNERS];
    size_t n[N_MIRROR_OWNERS] = {0};
    for (size_t i = 0; tamis_snapshot_next(snapshot, &i); i++)
        if (tamis_snapshot_segment(snapshot, i, &info) == 0) {
            enum mirror_owner owner = tamis_mirror_owner(tag, &info);
            if (n[owner]++ == 0)
                first[owner] = info;
        }
    enum mirror_owner by = n[MIRROR_DATABASE] ? MIRROR_DATABASE : MIRROR_ENGINE;
    words[0] = '\0';
    if (n[by] == 0)
        return false;
    snprintf(words, MIRROR_WORDS_BYTES, "it mirrors %s: it has its segment%s %.*s%s",
             tamis_mirror_owner_words(tag, by), n[by] == 1 ? "" : "s",
             (int)first[by].name_bytes, (const char *)first[by].name,
             n[by] == 1 ? "" : " and more");
    return true;
}

/* ---- changes ---- */

struct tamis_drop_if tamis_mirror_same(const struct tamis_segment_info *info)
{
    return (struct tamis_drop_if){.is_bound = info->state != 0,
                                  .binding = info->binding,
                                  .binding_bytes = info->binding_bytes};
}

int tamis_mirror_confirm(struct tamis_store *store, struct tamis_diag *diag)
{
    struct tamis_confirm_options opt = {.size = sizeof(opt), .force = 1};
    struct tamis_snapshot *now;
    int err = tamis_snapshot_current(store, &now, diag);
    if (err == 0 && !tamis_snapshot_info(now).complete)
        err = tamis_store_confirm(store, &opt, diag);
    tamis_snapshot_release(now);
    return err;
}
