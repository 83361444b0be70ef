#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- header fields: a file's header, field by field ---- */

/* Calls fn for every header field of the filter at `offset` of a file, readable or not,
 * in file order. `text` is the value for people, `kind` its type. The field and its
 * strings are valid during the call of fn. The result is that of opening the filter.
 * Any thread. */
enum tamis_field_kind { TAMIS_FIELD_NUMBER, TAMIS_FIELD_REAL, TAMIS_FIELD_TEXT };
struct tamis_field {
    const char *record; /* "identity", "commit A", "stage A.0", ... */
    const char *name;
    uint64_t offset; /* in the file */
    uint32_t n_bytes;
    enum tamis_field_kind kind;
    uint64_t number;
    double real;
    const char *text;
};
typedef void tamis_field_fn(void *ctx, const struct tamis_field *field);
int tamis_file_fields(const char *path, uint64_t offset, tamis_field_fn *fn, void *ctx,
                      struct tamis_diag *diag);
