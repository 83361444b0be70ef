/* The list of a store, and a check that whole edits have left it. */
#include "tests/kill/kill.h"

#include <string.h>

struct tamis_store *open_store(const char *path)
{
    struct tamis_store *s;
    struct tamis_diag diag;
    must(tamis_store_open(path, &s, &diag), "opening the store", &diag);
    return s;
}

struct tamis_snapshot *snapshot_of(struct tamis_store *s)
{
    struct tamis_snapshot *snapshot;
    struct tamis_diag diag;
    must(tamis_snapshot_current(s, &snapshot, &diag), "a snapshot", &diag);
    return snapshot;
}

static bool has(const struct tamis_snapshot *snapshot, char kind, uint64_t number)
{
    char name[32];
    struct tamis_target t;
    snprintf(name, sizeof name, "%c%llu", kind, (unsigned long long)number);
    return tamis_snapshot_find(snapshot, name, strlen(name), NULL, 0, 0, &t) == 0;
}

static void note(struct listed *l, const struct tamis_segment_info *info)
{
    char name[32] = {0}, kind;
    unsigned long long n;
    memcpy(name, info->name, info->name_bytes);
    if (strcmp(name, "mark") == 0) {
        l->mark = info->rank;
    } else if (strcmp(name, "t") == 0) {
        l->throwaway = true;
    } else if (sscanf(name, "%c%llu", &kind, &n) != 2) {
        lost("a segment %s is listed", name);
    } else if (kind == 'm') {
        l->first = n < l->first ? n : l->first;
        l->merged = n + 1 > l->merged ? n + 1 : l->merged;
    } else if (n + 1 > l->end) {
        l->end = n + 1;
        l->last_sealed = info->state == TAMIS_SEGMENT_SEALED;
    }
}

struct listed expect_listed(struct tamis_snapshot *snapshot)
{
    struct listed l = {.mark = UINT64_MAX, .first = UINT64_MAX, .last_sealed = true};
    struct tamis_segment_info info;
    size_t n = 0;
    for (; tamis_snapshot_segment(snapshot, n, &info) == 0; n++)
        note(&l, &info);
    if (!l.merged)
        l.first = 0;
    if (l.end < l.merged * MERGED)
        l.end = l.merged * MERGED;
    for (uint64_t i = l.first; i < l.merged; i++)
        if (!has(snapshot, 'm', i))
            lost("segment m%llu is not listed", (unsigned long long)i);
    for (uint64_t i = l.merged * MERGED; i < l.end; i++)
        if (!has(snapshot, 'g', i))
            lost("segment g%llu is not listed", (unsigned long long)i);
    if (l.mark == UINT64_MAX ||
        n != 1 + l.throwaway + l.merged - l.first + l.end - l.merged * MERGED)
        lost("half of an edit took effect: %zu segments, m%llu-%llu, g-%llu, mark %d",
             n, (unsigned long long)l.first, (unsigned long long)l.merged,
             (unsigned long long)l.end, (int)l.mark);
    if (l.first * MERGED * STORE_KEYS > shared->forgotten)
        lost("segments were dropped that nobody gave up");
    l.n_files = count_listed_files(snapshot);
    return l;
}
