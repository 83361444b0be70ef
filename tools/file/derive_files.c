/* `tamis file union`, `intersect`, `fold`: a filter file made from filter files. */
#include <stdlib.h>
#include <string.h>

#include "../talk/endings.h"
#include "../tool.h"

static int derive(const struct options *o, enum derived_how how,
                  struct tamis_filter **f, size_t n)
{
    struct tamis_derive_options opt = {.size = sizeof(opt), .watermark = o->watermark};
    struct tamis_derive_report report;
    struct tamis_diag diag = {0};
    const char *to = o->args[0];
    struct endings endings;
    int err;

    if (o->binding_bytes > 0) {
        opt.binding = o->binding;
        opt.binding_bytes = o->binding_bytes;
    }
    if (o->n_segments > 0) {
        opt.name = o->segments[0];
        opt.name_bytes = strlen(o->segments[0]);
    }
    endings_catch(&endings);
    if (how == DERIVED_UNION)
        err = tamis_filter_union(f, n, to, &opt, &report, &diag);
    else if (how == DERIVED_INTERSECTION)
        err = tamis_filter_intersection(f, n, to, &opt, &report, &diag);
    else if (given(o, OPT_BY))
        err = tamis_filter_fold(f[0], o->by, to, &opt, &report, &diag);
    else
        err = tamis_filter_shrink(f[0], o->growth.error, to, &opt, &report, &diag);
    endings_let(&endings, err != 0);
    return err ? derive_error(err, &diag, to) : print_derived(o, "file", to, &report);
}

int derive_files(int argc, char **argv, enum derived_how how)
{
    uint64_t allowed =
        WITH(OPT_SEGMENT) | WITH(OPT_BIND) | WITH(OPT_WATERMARK) | WITH(OPT_JSON);
    struct tamis_filter **filters;
    struct options o;
    size_t n;
    int status;

    if (how == DERIVED_FOLD)
        allowed |= WITH(OPT_BY) | WITH(OPT_FPR);
    parse_options(argc, argv, allowed, 2, how == DERIVED_FOLD ? 2 : 0, &o);
    if (how == DERIVED_FOLD)
        check_fold(&o);
    if (o.n_segments > 1)
        usage_error("one --segment: a filter is of one");
    n = o.n_args - 1;
    filters = need(calloc(n, sizeof(*filters)));
    status = check_new_file(o.args[0]);
    if (status == EXIT_DONE)
        status = files_open(&o, 1, n, filters);
    if (status == EXIT_DONE)
        status = derive(&o, how, filters, n);
    files_close(filters, n);
    free(filters);
    return status;
}
