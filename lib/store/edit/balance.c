/* The balance of an edit: sizes of filters that meet the target on average.
 *
 * Filters have few sizes, or whole pages, and are rounded up to these, so their error
 * is below the target. The balance sums up by how much. While it lasts, further filters
 * are smaller, with an error above the target:
 *
 *     100,000 keys at 1%     0.91%  1.04%  1.04%  0.91%  1.04%  1.04% ...
 *     pages                     31     30     30     31     30     30
 *     balance, %               .09    .05    .00    .09    .05    .00
 *
 * There are two sums, and neither falls below 0. A lookup that asks all segments wastes
 * reads by the sum of their errors. A lookup in segments with disjoint key ranges meets
 * one of them, the larger ones more often: its mean has keys as weights.
 *
 * A size depends on the sizes that were chosen before. So the order of choices must not
 * depend on threads: tamis_edit_size(). */
#include "lib/store/edit/inside.h"
#include "lib/plan/plan.h"

/* No filter has more than this many times its target. */
static const double MOST = 1.5;

void balance_begin(struct balance *b)
{
    static _Atomic uint64_t n_edits;
    *b = (struct balance){.edit = atomic_fetch_add(&n_edits, 1) + 1};
}

/* The largest error that may be stated, and leaves both sums at 0 or above. */
static double allowed_error(const struct balance *b, double target, uint64_t n_keys)
{
    double most = MOST * target < ERROR_MAX ? MOST * target : ERROR_MAX;
    double spare = most - target, by_keys = b->keys / (double)n_keys;
    spare = b->segments < spare ? b->segments : spare;
    return target + (by_keys < spare ? by_keys : spare);
}

static void balance_count(struct balance *b, double target,
                          const struct builder_size *s, double times)
{
    b->segments += times * (target - s->error);
    b->keys += times * (target - s->error) * (double)s->n_keys;
}

static void take_back(struct balance *b, double target, struct builder_size *s)
{
    if (s->edit == b->edit)
        balance_count(b, target, s, -1);
    s->edit = 0;
}

void balance_choose(struct tamis_edit *e, struct tamis_builder *builder)
{
    struct builder_size *s = builder_size(builder);
    const struct builder_facts f = builder_facts(builder);
    uint64_t n_keys = f.n_keys;
    double target = f.error;
    struct balance *b = &e->balance;
    if (!s)
        return;
    pthread_mutex_lock(&e->mutex);
    if (s->edit != b->edit || s->n_keys != n_keys) {
        take_back(b, target, s);
        s->n_keys = n_keys;
        /* A filter of more keys is as before: its pages round it up by little. */
        if (n_keys && n_keys <= TAMIS_EDIT_BALANCED_KEYS &&
            plan_sealed_geometry(n_keys, target, allowed_error(b, target, n_keys),
                                 &s->geometry) == 0) {
            s->error = plan_geometry_error(&s->geometry, n_keys);
            s->edit = b->edit;
            balance_count(b, target, s, 1);
        }
    }
    pthread_mutex_unlock(&e->mutex);
}

void balance_settle(struct tamis_edit *e, struct tamis_builder *builder, bool is_put)
{
    struct builder_size *s = builder ? builder_size(builder) : NULL;
    if (!s)
        return;
    pthread_mutex_lock(&e->mutex);
    if (!is_put)
        take_back(&e->balance, builder_facts(builder).error, s);
    s->edit = 0;
    pthread_mutex_unlock(&e->mutex);
}
