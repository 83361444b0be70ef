/* The directory of a database: is it LevelDB's, which database is it, which tables does
 * it have, and what is in their files?
 *
 * LevelDB gives a database no identity, and two databases that were filled alike are
 * equal byte for byte. The inode and the birth time of the file LOCK tell them apart:
 * LevelDB makes LOCK with the database and never replaces it, and a rename of the
 * directory keeps it. A copy has another LOCK, so it is another database; --force takes
 * it over without building a filter anew. */
#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fill.h"

enum { ATTEMPTS = 8 };

static char *path_of(const char *database, const char *name)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", database, name) < 0)
        path = NULL;
    return memory_or_exit(path);
}

/* ---- which database ---- */

/* Without a birth time, take the last change: no process writes to LOCK. */
static bool born(const char *path, uint64_t identity[3])
{
    struct statx st;
    if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_BTIME | STATX_MTIME, &st) != 0)
        return false;
    const struct statx_timestamp *t =
        st.stx_mask & STATX_BTIME ? &st.stx_btime : &st.stx_mtime;
    identity[0] = htole64(st.stx_ino);
    identity[1] = htole64((uint64_t)t->tv_sec);
    identity[2] = htole64(t->tv_nsec);
    return true;
}

int database_tag(const char *database, char tag[MIRROR_TAG_BYTES])
{
    uint64_t identity[3];
    char *lock = path_of(database, "LOCK");
    /* A copy may lack it. */
    bool known = born(lock, identity) || born(database, identity);
    free(lock);
    if (!known)
        return complain_errno(errno, database, "reading when it was made");
    tamis_mirror_tag(tag, "leveldb", identity, sizeof(identity));
    return EXIT_DONE;
}

/* ---- which tables ---- */

static int list_error(const char *database, enum ldb_result result, const char *why)
{
    switch (result) {
    case LDB_NONE:
        return complain(EXIT_DAMAGE, "%s: no LevelDB database: %s", database,
                        why[0] ? "its CURRENT names a missing file"
                               : "it has no CURRENT");
    case LDB_DAMAGED:
        return complain(EXIT_DAMAGE, "%s: damaged: %s" LET_IT_REPAIR, database, why);
    case LDB_GOOD:
    case LDB_FAILED:
    case LDB_STOPPED:
        break;
    }
    return complain(EXIT_IO, "%s: %s", database, why);
}

int read_list(const char *database, struct ldb_list *list)
{
    char why[LDB_WHY_BYTES];
    enum ldb_result result = LDB_NONE;
    *list = (struct ldb_list){.n = 0};
    int status = bridge_check_database(database, false);
    if (status != EXIT_DONE)
        return status;
    /* CURRENT may name a new MANIFEST just as the older one is deleted. */
    for (int i = 0; i < ATTEMPTS && result == LDB_NONE; i++) {
        result = ldb_list_read(database, list, why);
        if (result == LDB_NONE && !why[0])
            break;
    }
    if (result != LDB_GOOD)
        return list_error(database, result, why);
    if (strcmp(list->comparator, "leveldb.BytewiseComparator") != 0)
        return complain(EXIT_DAMAGE,
                        "%s: its comparator is %s, under which different bytes may be "
                        "the same key: only leveldb.BytewiseComparator will do",
                        database, list->comparator);
    return EXIT_DONE;
}

/* ---- one table ----
 *
 * A digest of all its bytes identifies a table. Its number does not: a database may be
 * destroyed and made anew, restored or repaired, and then a number recurs with other
 * keys. Its size, footer and index do not either: the index has a separator and a place
 * for each block, and tables with other keys may have the same. Building a filter reads
 * all bytes anyway. */

/* Opens under the name of today's tables, then of those before LevelDB 1.14. */
static int open_table(const char *database, uint64_t number, struct table_file *out)
{
    static const char *const suffixes[] = {"ldb", "sst"};
    int fd = -1;
    for (size_t i = 0; i < 2 && fd < 0; i++) {
        snprintf(out->name, sizeof(out->name), "%06" PRIu64 ".%s", number, suffixes[i]);
        char *path = path_of(database, out->name);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0 && errno != ENOENT)
            i = 2;
        free(path);
    }
    return fd;
}

static int read_all(FILE *file, const char *path, uint64_t n_bytes,
                    struct table_file *out)
{
    struct stat st;
    if (fstat(fileno(file), &st) != 0)
        return complain_errno(errno, path, "reading");
    if (!S_ISREG(st.st_mode))
        return complain(EXIT_DAMAGE, "%s: no regular file, and no table", path);
    if ((uint64_t)st.st_size != n_bytes)
        return complain(EXIT_DAMAGE,
                        "%s: damaged: it has %llu bytes, and %llu in the "
                        "MANIFEST" LET_IT_REPAIR,
                        path, LLU(st.st_size), LLU(n_bytes));
    out->bytes = memory_or_exit(malloc((size_t)n_bytes + 1));
    out->n_bytes = fread(out->bytes, 1, (size_t)n_bytes, file);
    if (out->n_bytes == n_bytes)
        return EXIT_DONE;
    return ferror(file)
               ? complain_errno(errno, path, "reading")
               : complain(EXIT_DAMAGE, "%s: cut short while it was read", path);
}

int table_file_read(const char *database, const char *tag,
                    const struct ldb_table *table, struct table_file *out, bool *gone)
{
    *out = (struct table_file){.bytes = NULL};
    int fd = open_table(database, table->number, out);
    *gone = fd < 0 && errno == ENOENT;
    if (*gone)
        return EXIT_IO;
    char *path = path_of(database, out->name);
    FILE *file = fd < 0 ? NULL : memory_or_exit(fdopen(fd, "r"));
    int status = fd < 0 ? complain_errno(errno, path, "opening")
                        : read_all(file, path, table->n_bytes, out);
    if (file != NULL)
        fclose(file);
    if (status == EXIT_DONE) {
        struct tamis_domain seed_0;
        tamis_domain_init(&seed_0, 1, 0);
        uint64_t digest = tamis_key_of(&seed_0, out->bytes, out->n_bytes).hash;
        snprintf(out->binding, sizeof(out->binding), "%s/%zu/%016" PRIx64, tag,
                 out->n_bytes, digest);
    }
    free(path);
    return status;
}
