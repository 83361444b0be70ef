/* The result of `tamis merge` and `tamis file merge`. */
#include "output.h"

int print_merged(const struct options *o, const char *what, const char *name,
                 size_t n_lists, const struct tamis_merge_report *r)
{
    work_is_done();
    progress_clear();
    if (given(o, OPT_JSON))
        json_print(json_of(
            what, json_escaped(name, strlen(name)), "lists", json_count(n_lists),
            "read", json_count(r->n_read), "repeats", json_count(r->n_repeats), "keys",
            json_count(r->n_hashes), "list_bytes", json_count(r->file_bytes)));
    else
        printf("%s: %s of %s, %s, %s\n", PATH(name), COUNTED(r->n_hashes, "key"),
               COUNTED(n_lists, "list"), COUNTED(r->n_repeats, "repeat"),
               SIZE(r->file_bytes));
    return output_works() ? EXIT_DONE : EXIT_IO;
}
