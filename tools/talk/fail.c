/* Reports a failed call: the file, the fault, its offset, the remedy. */
#include "endings.h"
#include "talk.h"

int complain_error(int error, const struct tamis_diag *diag, const char *file,
                   const char *advice)
{
    bool told = diag != NULL && diag->code != 0;
    const char *what = told && diag->what[0] ? diag->what : tamis_strerror(error);
    char offset[48] = "";
    if (error == TAMIS_ERR_BUSY && endings_came) /* which ended the wait */
        return EXIT_BUSY;
    /* A diag "(descriptor)" knows less than we do. */
    if (told && diag->file[0] && diag->file[0] != '(')
        file = diag->file;
    if (advice == NULL && error == TAMIS_ERR_DAMAGED)
        advice = store_advice(error, file); /* of a store, not of a filter */
    if (advice == NULL && (advice = pack_advice(error, what)) == NULL)
        advice = usual_advice(error);
    if (advice == NULL || strstr(what, "first draft") != NULL) /* it says what to do */
        advice = "";
    if (told && diag->has_offset)
        snprintf(offset, sizeof(offset), " (offset %llu)", LLU(diag->offset));
    return complain(status_of_error(error), "%s: %s%s%s%s", file, what, offset,
                    advice[0] ? ": " : "", advice);
}

int complain_store(int error, const struct tamis_diag *diag, const char *path)
{
    return complain_error(error, diag, path, store_advice(error, path));
}

int store_open(const char *path, struct tamis_store **store)
{
    struct tamis_diag diag = {0};
    struct tamis_open_options opt = {.size = sizeof(opt), .waiting = wait_ends};
    int err = tamis_store_open(path, &opt, store, &diag);
    return err ? complain_store(err, &diag, path) : EXIT_DONE;
}

int complain_errno(int os_errno, const char *file, const char *doing)
{
    const char *advice = usual_advice(os_errno);
    return complain(EXIT_IO, "%s: %s: %s%s%s", file, doing, strerror(os_errno),
                    advice ? ": " : "", advice ? advice : "");
}

int complain_add(int error, const char *file)
{
    const char *spool = getenv("TMPDIR");
    if (error <= 0 || error == ENOMEM)
        return complain_error(error, NULL, file, NULL);
    if (spool == NULL || spool[0] == '\0')
        spool = "/tmp";
    return complain(EXIT_IO,
                    "%s: spooling hashes here failed: %s: set TMPDIR to a directory "
                    "that has room, 8 bytes per key",
                    spool, strerror(error));
}
