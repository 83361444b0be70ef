/* How large the pack of some segments will be. */
#include "format/integrity.h"
#include "lib/pack/pack.h"
#include "lib/plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int source_of(uint64_t n_keys, double error, bool from_files,
                     struct pack_source *s)
{
    *s = (struct pack_source){.column = 0};
    if (!from_files)
        return plan_packed_geometry(n_keys, error, &s->geometry);
    int err = plan_sealed_geometry(n_keys, error, error, &s->geometry);
    s->folded_blocks = err ? 0 : bands_fold(&s->geometry, n_keys, error);
    return err;
}

static void describe(const struct pack_plan *p, uint64_t n_keys,
                     struct tamis_plan_packed *out)
{
    enum { LINE_BYTES = 64 };
    out->n_bands = p->n_bands;
    out->rows_bytes = p->rows_bytes + digests_bytes(p->rows_bytes / PAGE_BYTES);
    out->bits_per_key = n_keys ? (double)out->rows_bytes * 8 / (double)n_keys : 0;
    for (uint32_t i = 0; i < p->n_bands; i++) {
        const struct band *b = &p->bands[i];
        out->n_lines += (b->row_bytes + LINE_BYTES - 1) / LINE_BYTES *
                        b->geometry.lanes * b->geometry.words;
    }
}

int tamis_plan_pack(const uint64_t *n_keys, size_t n, double error, int from_files,
                    struct tamis_plan_packed *plan)
{
    struct pack_plan p;
    uint64_t keys = 0;
    memset(plan, 0, sizeof *plan);
    if (!plan_error_valid(error) || n == 0 || n > PACK_MAX_COLUMNS)
        return TAMIS_ERR_RANGE;
    struct pack_source *sources = malloc(n * sizeof *sources);
    if (!sources)
        return ENOMEM;
    int err = 0;
    for (size_t i = 0; i < n && !err; i++) {
        struct tamis_plan file;
        if (n_keys[i] > UINT64_C(1) << 48)
            err = TAMIS_ERR_RANGE;
        else
            err = source_of(n_keys[i], error, from_files, &sources[i]);
        if (!err && from_files) {
            plan_describe(&sources[i].geometry, n_keys[i], &file);
            plan->files_bytes += file.file_bytes;
        }
        keys += err ? 0 : n_keys[i];
    }
    if (!err)
        err = bands_choose(sources, n, &p);
    if (!err) {
        describe(&p, keys, plan);
        pack_plan_free(&p);
    } else {
        memset(plan, 0, sizeof *plan);
    }
    free(sources);
    return err;
}
