/* The summary of a run: counts, and each segment that was replaced or dropped. */
#include <inttypes.h>

#include "../output/json.h"
#include "bridge.h"

/* One stable word each. */
static const char *const actions[] = {"built", "replaced", "rebound", "bare",
                                      "dropped"};
static const char *const owners[] = {"this", "database", "engine", "none",
                                     "unreadable"};

void bridge_changed(struct bridge_report *r, enum bridge_action action,
                    const void *name, size_t n_bytes,
                    const struct tamis_segment_info *was)
{
    if (r->n_changes == r->max_changes) {
        r->max_changes = r->max_changes ? 2 * r->max_changes : 64;
        r->changes = memory_or_exit(
            realloc(r->changes, r->max_changes * sizeof(struct bridge_change)));
    }
    struct bridge_change *c = &r->changes[r->n_changes++];
    c->action = action;
    c->owner = was ? tamis_mirror_owner(r->tag, was) : N_MIRROR_OWNERS;
    snprintf(c->name, sizeof(c->name), "%.*s", (int)n_bytes, (const char *)name);
    r->dropped += action == BRIDGE_DROPPED;
}

/* ---- for people ---- */

static void print_change(const struct bridge_report *r, const struct bridge_change *c)
{
    bool named = c->action == BRIDGE_REPLACED || c->action == BRIDGE_DROPPED;
    if (!named && !r->bridge->dry_run)
        return;
    printf("  %-8s  ", actions[c->action]);
    print_escaped(stdout, c->name, strlen(c->name));
    if (c->owner != N_MIRROR_OWNERS && c->owner != MIRROR_THIS)
        printf("  (was of %s)", tamis_mirror_owner_words(r->tag, c->owner));
    putchar('\n');
}

static void print_text(const struct bridge_report *r)
{
    printf("%s%s: %" PRIu64 " built, %" PRIu64 " kept, %" PRIu64
           " without a filter, %" PRIu64 " dropped",
           r->bridge->dry_run ? "dry run: " : "", COUNTED(r->tables, "table"), r->built,
           r->kept, r->bare, r->dropped);
    if (r->keys)
        printf("; %" PRIu64 " keys", r->keys);
    if (r->left)
        printf("; %" PRIu64 " of no database left alone", r->left);
    putchar('\n');
    for (size_t i = 0; i < r->n_changes; i++)
        print_change(r, &r->changes[i]);
    if (r->log_bytes)
        printf("%s of log: its keys are in no table and no segment yet\n",
               SIZE(r->log_bytes));
}

/* ---- for programs ---- */

static json_t *change_json(const struct bridge_change *c)
{
    json_t *o = json_of("segment", json_escaped(c->name, strlen(c->name)), "action",
                        json_string(actions[c->action]));
    if (c->owner != N_MIRROR_OWNERS)
        json_put(o, "was", json_string(owners[c->owner]));
    return o;
}

static void print_json(const struct bridge_report *r)
{
    const struct bridge *b = r->bridge;
    json_t *changes = memory_or_exit(json_array());
    for (size_t i = 0; i < r->n_changes; i++)
        json_put(changes, NULL, change_json(&r->changes[i]));
    json_print(json_of("store", json_escaped(b->store, strlen(b->store)), "database",
                       json_escaped(b->directories[0], strlen(b->directories[0])),
                       "identity", json_escaped(r->tag, strlen(r->tag)), "dry_run",
                       json_boolean(b->dry_run), "tables", json_count(r->tables),
                       "built", json_count(r->built), "kept", json_count(r->kept),
                       "bare", json_count(r->bare), "dropped", json_count(r->dropped),
                       "left", json_count(r->left), "keys", json_count(r->keys),
                       "log_bytes", json_count(r->log_bytes), "changes", changes));
}

void bridge_print(const struct bridge_report *r)
{
    if (!r->bridge->dry_run)
        work_is_done();
    if (r->bridge->json)
        print_json(r);
    else
        print_text(r);
}
