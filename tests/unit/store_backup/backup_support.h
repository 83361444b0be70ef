/* For tests of backup: a store with a bit of everything, and its backup. */
#ifndef TAMIS_TESTS_BACKUP_SUPPORT_H
#define TAMIS_TESTS_BACKUP_SUPPORT_H

#include "tests/support/repair_support.h"
#include "tests/support/still_disk.h"

static UNUSED struct tamis_backup_report backed_up;

static UNUSED int backup_code(struct tamis_store *s, const char *to,
                              struct tamis_diag *diag)
{
    seen.n = 0;
    return tamis_store_backup(
        s, path_of(to),
        &(struct tamis_backup_options){
            .size = sizeof(struct tamis_backup_options), .found = see, .ctx = NULL},
        &backed_up, diag);
}

static UNUSED void backup(struct tamis_store *s, const char *to)
{
    struct tamis_diag diag = {0};
    if (backup_code(s, to, &diag) != 0)
        fail_msg("%s: %s", diag.file, diag.what);
}

static UNUSED struct tamis_store *store_agw_bare(const char *name)
{
    struct tamis_store *s = store_agw(name);
    EDIT(s, tamis_edit_put_bare(edit, "bare", 4, NULL, NULL));
    return s;
}

static UNUSED const char *file_in(const char *store, const char *original)
{
    static char path[1200];
    snprintf(path, sizeof path, "%s/filters%s", path_of(store), strrchr(original, '/'));
    return path;
}

#endif
