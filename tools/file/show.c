/* tamis file show: every header field with its offset, even of broken headers. */
#include "file.h"

struct show {
    json_t *list; /* NULL: text */
    char record[64];
};

static void field(void *ctx, const struct tamis_field *f)
{
    struct show *show = ctx;
    const char *text = f->text ? f->text : "";
    if (show->list != NULL) {
        json_t *value = NULL;
        if (f->kind == TAMIS_FIELD_NUMBER)
            value = json_count(f->number);
        if (f->kind ==
            TAMIS_FIELD_REAL) /* of a broken header perhaps not one of JSON */
            value = json_real(f->real);
        json_put(show->list, NULL,
                 json_of("record", json_string(f->record), "name", json_string(f->name),
                         "offset", json_count(f->offset), "bytes",
                         json_count(f->n_bytes), "value",
                         value ? value : json_string(text), "text", json_string(text)));
        return;
    }
    if (strcmp(show->record, f->record) != 0) {
        snprintf(show->record, sizeof(show->record), "%s", f->record);
        printf("%s\n", f->record);
    }
    printf("  %10llu %4u  %-22s ", LLU(f->offset), f->n_bytes, f->name);
    puts(text); /* its bytes are escaped already */
}

static int run(int argc, char **argv)
{
    struct show show = {0};
    struct tamis_diag diag = {0};
    struct options o;
    json_t *root = NULL;
    parse_options(argc, argv, 1, 1, &o);
    if (given(&o, OPT_JSON))
        show.list = memory_or_exit(json_array());
    int err = tamis_file_fields(o.args[0], o.offset, field, &show, &diag);
    int status = file_error(&o, err, &diag);
    if (show.list != NULL) {
        root = json_of("file", json_text(o.args[0]), "offset", json_count(o.offset),
                       "fields", show.list);
        if (err != 0) {
            const char *what = diag.what[0] ? diag.what : tamis_strerror(err);
            json_put(root, "error", json_text(what));
        }
    }
    if (status == EXIT_DONE && given(&o, OPT_RESIDENCY))
        status = file_residency(&o, root);
    if (root != NULL)
        json_print(root);
    return status;
}

const struct command cmd_file_show = {
    .name = "file show",
    .arguments = "FILE [--offset N] [--residency] [--json]",
    .summary = "print every header field",
    .about = "Prints each field of the identity, the commit records and the stages: "
             "offset in the file, length, name, value. It prints a broken header as "
             "well, and exits 3.\n",
    .options = {OPTION(OFFSET), OPTION(RESIDENCY), OPTION(JSON)},
    .examples = "tamis file show words.tamis\n",
    .run = run,
};
