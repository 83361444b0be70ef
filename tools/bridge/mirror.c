/* The binding of a segment says which database it is of. Earlier bridges put bindings
 * without a database:
 * - tamis-leveldb: 16 bytes, the table's size and digest;
 * - tamis-rocksdb: "<session>/<number>", or none without a filter, where RocksDB did
 *   not tell which file it is. */
#include "mirror.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ENGINE_BYTES = 7, TAG_BYTES = MIRROR_TAG_BYTES - 1, SESSION_BYTES = 20 };

static const char leveldb[] = "leveldb", rocksdb[] = "rocksdb";

void tamis_mirror_tag(char tag[MIRROR_TAG_BYTES], const char *engine,
                      const void *identity, size_t n_bytes)
{
    struct tamis_domain seed_0;
    tamis_domain_init(&seed_0, 1, 0);
    snprintf(tag, MIRROR_TAG_BYTES, "%.7s:%016" PRIx64, engine,
             tamis_key_of(&seed_0, identity, n_bytes).hash);
}

/* ---- forms ---- */

static size_t digits_at(const uint8_t *s, size_t n)
{
    size_t i = 0;
    while (i < n && s[i] >= '0' && s[i] <= '9')
        i++;
    return i;
}

/* The names of tables: digits, then ".sst" or ".ldb". */
static bool is_table(const void *name, size_t n_bytes)
{
    const uint8_t *s = name;
    size_t digits = digits_at(s, n_bytes);
    return digits >= 6 && n_bytes == digits + 4 &&
           (memcmp(s + digits, ".ldb", 4) == 0 || memcmp(s + digits, ".sst", 4) == 0);
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

static bool is_session(const uint8_t *s)
{
    for (size_t i = 0; i < SESSION_BYTES; i++)
        if ((s[i] < '0' || s[i] > '9') && (s[i] < 'A' || s[i] > 'Z'))
            return false;
    return true;
}

/* The engine whose earlier bridge put this binding, or NULL. */
static const char *old_engine(const struct tamis_segment_info *info)
{
    const uint8_t *b = info->binding;
    size_t n = info->binding_bytes;
    bool is_mark = info->name_bytes == 6 && memcmp(info->name, "ingest", 6) == 0;
    if (n == 0 && info->state == TAMIS_SEGMENT_BARE &&
        (is_mark || is_table(info->name, info->name_bytes)))
        return rocksdb;
    if (!is_table(info->name, info->name_bytes) || info->state == TAMIS_SEGMENT_GROWING)
        return NULL;
    if (n == 16)
        return leveldb;
    if (n > SESSION_BYTES + 1 && is_session(b) && b[SESSION_BYTES] == '/' &&
        digits_at(b + SESSION_BYTES + 1, n - SESSION_BYTES - 1) ==
            n - SESSION_BYTES - 1)
        return rocksdb;
    return NULL;
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
    const char *old = old_engine(info);
    if (old != NULL)
        return memcmp(old, tag, ENGINE_BYTES) == 0 ? MIRROR_OLD : MIRROR_ENGINE;
    return MIRROR_OTHER;
}

const char *tamis_mirror_owner_words(const char *tag, enum mirror_owner owner)
{
    bool is_leveldb = memcmp(tag, leveldb, ENGINE_BYTES) == 0;
    switch (owner) {
    case MIRROR_THIS:
        return "this database";
    case MIRROR_OLD:
        return is_leveldb ? "an unknown LevelDB database"
                          : "an unknown RocksDB database";
    case MIRROR_DATABASE:
        return is_leveldb ? "another LevelDB database" : "another RocksDB database";
    case MIRROR_ENGINE:
        return is_leveldb ? "a RocksDB database" : "a LevelDB database";
    case MIRROR_OTHER:
        return "no database";
    case MIRROR_UNREADABLE:
    case N_MIRROR_OWNERS:
        break;
    }
    return "an unreadable record";
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
    return target.slot && !tamis_snapshot_segment(snapshot, target.slot - 1, info)
               ? target.slot - 1
               : SIZE_MAX;
}

void tamis_mirror_survey(struct tamis_snapshot *snapshot, const char *tag,
                         struct mirror_survey *out)
{
    *out = (struct mirror_survey){.n = {0}};
    for (size_t i = 0; tamis_snapshot_next(snapshot, &i); i++) {
        struct tamis_segment_info info;
        enum mirror_owner owner = MIRROR_UNREADABLE;
        if (tamis_snapshot_segment(snapshot, i, &info) == 0)
            owner = tamis_mirror_owner(tag, &info);
        if (out->n[owner]++ == 0)
            out->first[owner] = i;
    }
}

bool tamis_mirror_refuses(struct tamis_snapshot *snapshot, const char *tag,
                          const struct mirror_survey *survey, bool old_is_this,
                          char words[MIRROR_WORDS_BYTES])
{
    enum mirror_owner by = survey->n[MIRROR_DATABASE] ? MIRROR_DATABASE
                           : survey->n[MIRROR_ENGINE] ? MIRROR_ENGINE
                                                      : MIRROR_OLD;
    size_t n = survey->n[by];
    struct tamis_segment_info info = {.name = (const uint8_t *)""};
    words[0] = '\0';
    if (n == 0 || (by == MIRROR_OLD && old_is_this))
        return false;
    tamis_snapshot_segment(snapshot, survey->first[by], &info);
    snprintf(words, MIRROR_WORDS_BYTES, "it mirrors %s: it has its segment%s %.*s%s",
             tamis_mirror_owner_words(tag, by), n == 1 ? "" : "s", (int)info.name_bytes,
             (const char *)info.name, n == 1 ? "" : " and more");
    return true;
}

/* ---- changes ---- */

int tamis_mirror_drop(struct tamis_edit *edit, struct tamis_snapshot *snapshot,
                      size_t index, struct tamis_diag *diag)
{
    struct tamis_segment_info info;
    int err = tamis_snapshot_segment(snapshot, index, &info);
    if (err != 0)
        return err;
    if (info.state == 0)
        return tamis_edit_drop(edit, info.name, info.name_bytes, diag);
    return tamis_edit_drop_bound(edit, info.name, info.name_bytes, info.binding,
                                 info.binding_bytes, diag);
}

/* A damaged page would become a page of ones for ever. */
static int check_whole(struct tamis_snapshot *snapshot, size_t index)
{
    struct tamis_filter *filter;
    struct tamis_verify report;
    int err = tamis_snapshot_filter(snapshot, index, &filter, NULL);
    if (err == 0)
        err = tamis_filter_verify(filter, &report, NULL);
    tamis_filter_close(filter);
    return err;
}

int tamis_mirror_put_again(struct tamis_edit *edit, struct tamis_snapshot *snapshot,
                           size_t index, const struct tamis_segment_options *opt)
{
    struct tamis_segment_info info;
    int err = tamis_snapshot_segment(snapshot, index, &info);
    if (err == 0)
        err = check_whole(snapshot, index);
    return err ? err
               : tamis_edit_derive(edit, info.name, info.name_bytes, snapshot, &index,
                                   1,
                                   &(struct tamis_derivation){.operation = TAMIS_UNION},
                                   opt, NULL, NULL);
}

int tamis_mirror_confirm(struct tamis_store *store, struct tamis_diag *diag)
{
    struct tamis_confirm_options opt = {.size = sizeof(opt), .force = 1};
    struct tamis_snapshot *now;
    int err = tamis_snapshot_current(store, &now, diag);
    if (err == 0 && !tamis_snapshot_complete(now))
        err = tamis_store_confirm(store, &opt, diag);
    tamis_snapshot_release(now);
    return err;
}
