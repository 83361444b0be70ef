#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- lists merged, without keys -----------------------------------------------
 *
 * A list is opened as a filter is (tamis_filter_open()). Every page is checked before a
 * hash of it is used, in whatever mode the list was opened: a page that fails ends the
 * call with ERR_DAMAGED, and nothing of the result stays, for it would lack keys. Lists
 * may be probed meanwhile. Any thread may call the functions. */

struct tamis_merge_options {
    size_t size;
    struct tamis_identity identity;
    uint64_t watermark; /* 0: for none; those of the lists need not be of one log */
    tamis_progress_fn *progress; /* of the pages read; may be NULL */
    void *progress_ctx;
};
struct tamis_merge_report {
    uint64_t n_read;    /* hashes of all lists */
    uint64_t n_repeats; /* of them: in an earlier list, too */
    uint64_t n_hashes;  /* of the result: each once */
    uint64_t file_bytes;
};
/* Merges n lists into a new one at `path`, durable under its name on return
 * (ERR_EXISTS; ERR_NETWORK). On failure nothing of it stays; a kill leaves what
 * tamis_builder_finish() leaves. All must be lists with the same hash_bits (else
 * ERR_UNFIT) and domain (else ERR_MISMATCH): the diag has the path of the first that
 * differs. ECANCELED if the progress function stopped it. Memory: 50 KiB a list, and 3
 * MiB. opt and report may be NULL. */
int tamis_list_merge(struct tamis_filter *const *lists, size_t n, const char *path,
                     const struct tamis_merge_options *opt,
                     struct tamis_merge_report *report, struct tamis_diag *diag);
