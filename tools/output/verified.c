/* Is a filter whole? A line, or an object. */
#include "output.h"

void verify_line(json_t *list, struct name segment, const char *result,
                 const char *file, const char *what, const struct tamis_verify *report,
                 const char *advice)
{
    progress_wipe();
    if (list == NULL) {
        print_escaped(stdout, segment.bytes, segment.n_bytes);
        putchar('\t');
        print_tinted(strcmp(result, "ok") == 0     ? TINT_GOOD
                     : strcmp(result, "bare") == 0 ? TINT_DOUBT
                                                   : TINT_BAD,
                     "%s", result);
        if (what != NULL || advice != NULL)
            printf("\t%s", what != NULL ? what : "");
        if (advice != NULL)
            printf("\t%s", advice);
        putchar('\n');
        return;
    }
    json_t *o =
        json_of("segment", json_escaped(segment.bytes, segment.n_bytes), "result",
                json_string(result), "file", json_escaped(file, strlen(file)));
    if (what != NULL)
        json_put(o, "what", json_escaped(what, strlen(what)));
    if (advice != NULL)
        json_put(o, "advice", json_string(advice));
    if (report != NULL) {
        json_add(o, "pages", json_count(report->n_pages), "damaged",
                 json_count(report->n_damaged));
        if (report->n_damaged > 0)
            json_put(o, "first_damaged", json_count(report->first_damaged));
        json_put(o, "stale_slots", json_count(report->n_stale_slots));
    }
    json_put(list, NULL, o);
}

int verify_one(struct tamis_filter *filter, struct name segment, const char *file,
               advice_fn *advise, const void *ctx, json_t *list)
{
    const char *advice = NULL;
    struct tamis_verify report = {0};
    struct tamis_diag diag = {0};
    char what[128];
    int err = tamis_filter_verify(filter, &report, &diag);
    if (report.n_damaged > 0) {
        snprintf(what, sizeof(what), "%llu of %s, the first at offset %llu",
                 LLU(report.n_damaged), COUNTED(report.n_pages, "page"),
                 LLU(report.first_damaged));
    } else if (err != 0) {
        snprintf(what, sizeof(what), "%.100s",
                 diag.what[0] ? diag.what : tamis_strerror(err));
        if (report.n_stale_slots > 0)
            advice = advise != NULL
                         ? "the other one serves, and 'tamis repair' mends it"
                         : "the other one serves";
    } else {
        snprintf(what, sizeof(what), "%s", COUNTED(report.n_pages, "page"));
    }
    if (err != 0 && advice == NULL && advise != NULL)
        advice = advise(ctx, err);
    if (err != 0 && advice == NULL)
        advice = usual_advice(err);
    verify_line(list, segment,
                err == 0  ? "ok"
                : err > 0 ? "unreadable"
                          : "damaged",
                file, what, &report, advice);
    if (err != 0)
        complain_error(err, &diag, file, advice);
    return status_of_error(err);
}
