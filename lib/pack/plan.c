/* How large the pack of some segments will be. */
#include "format/integrity.h"
#include "lib/pack/pack.h"
#include "lib/plan/plan.h"

#include <stdlib.h>

static int source_of(uint64_t n_keys, double error, bool from_files,
                     struct pack_source *s)
{
    *s = (struct pack_source){.column = 0};
    if (!from_files)
        return plan_packed_geometry(n_keys, error, &s->geometry);
    int err = plan_sealed_geometry(n_keys, error, error, &s->geometry);
    if (!err) {
        struct tamis_plan file;
        plan_describe(&s->geometry, n_keys, &file);
        s->file_pages = (uint32_t)(file.file_bytes / PAGE_BYTES);
        s->folded_blocks = bands_fold(&s->geometry, n_keys, error);
    }
    return err;
}

static void packed_plan_describe(const struct pack_plan *p,
                                 const struct pack_source *sources, size_t n,
                                 uint64_t n_keys, struct tamis_plan_packed *out)
{
    enum { LINE_BYTES = 64 };
    out->n_bands = p->n_bands;
    out->rows_bytes = p->rows_bytes + digests_bytes(p->rows_bytes / PAGE_BYTES);
    for (size_t i = 0; i < n; i++) {
        uint64_t file_bytes = (uint64_t)sources[i].file_pages * PAGE_BYTES;
        bool stays = sources[i].column == NO_COLUMN;
        out->files_bytes += file_bytes;
        out->rows_bytes += stays ? file_bytes : 0;
        out->n_lines += stays ? sources[i].geometry.lanes : 0;
    }
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
        if (n_keys[i] > UINT64_C(1) << 48)
            err = TAMIS_ERR_RANGE;
        else
            err = source_of(n_keys[i], error, from_files, &sources[i]);
        keys += err ? 0 : n_keys[i];
    }
    if (!err)
        err = bands_choose(sources, n, &p);
    if (!err) {
        packed_plan_describe(&p, sources, n, keys, plan);
        pack_plan_free(&p);
    }
    free(sources);
    return err;
}
