/* The directory of a database: is it LevelDB's, which database is it, and which tables
 * does it have?
 *
 * LevelDB gives a database no identity, and two databases that were filled alike are
 * equal byte for byte. The inode and the birth time of the file LOCK tell them apart:
 * LevelDB makes LOCK with the database and never replaces it, and a rename of the
 * directory keeps it. A copy has another LOCK, so it is another database; --force takes
 * it over without building a filter anew. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fill.h"

enum { ATTEMPTS = 8 };

/* ---- which engine ---- */

/* RocksDB writes these beside the files that LevelDB has, too. */
static bool is_rocksdb(const char *database)
{
    DIR *dir = opendir(database);
    const struct dirent *e;
    bool found = false;
    while (dir && !found && (e = readdir(dir)) != NULL)
        found = strcmp(e->d_name, "IDENTITY") == 0 ||
                strncmp(e->d_name, "OPTIONS-", 8) == 0;
    if (dir)
        closedir(dir);
    return found;
}

/* ---- which database ---- */

static void put_le64(uint8_t *at, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(v >> 8 * i);
}

/* Without a birth time, take the last change: nobody writes to LOCK. */
static bool born(const char *path, uint8_t identity[24])
{
    struct statx st;
    if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_BTIME | STATX_MTIME, &st) != 0)
        return false;
    const struct statx_timestamp *t =
        st.stx_mask & STATX_BTIME ? &st.stx_btime : &st.stx_mtime;
    put_le64(identity, st.stx_ino);
    put_le64(identity + 8, (uint64_t)t->tv_sec);
    put_le64(identity + 16, t->tv_nsec);
    return true;
}

int database_tag(const char *database, char tag[MIRROR_TAG_BYTES])
{
    uint8_t identity[24];
    char *lock = NULL;
    if (asprintf(&lock, "%s/LOCK", database) < 0)
        lock = NULL;
    /* A copy may lack it. */
    bool known = born(memory_or_exit(lock), identity) || born(database, identity);
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
        return complain(
            EXIT_DAMAGE,
            "%s: damaged: %s: let LevelDB repair the database, or restore it", database,
            why);
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
    struct stat st;
    enum ldb_result result = LDB_NONE;
    *list = (struct ldb_list){.n = 0};
    if (stat(database, &st) != 0) {
        bool is_none = errno == ENOENT || errno == ENOTDIR;
        complain_errno(errno, database, "opening");
        return is_none ? EXIT_NONE : EXIT_IO;
    }
    if (!S_ISDIR(st.st_mode))
        return complain(EXIT_DAMAGE, "%s: no LevelDB database: it is no directory",
                        database);
    if (is_rocksdb(database))
        return complain(EXIT_DAMAGE,
                        "%s: this is a RocksDB database: use tamis-rocksdb; nothing "
                        "was changed",
                        database);
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

uint64_t log_bytes(const char *database, const struct ldb_list *list)
{
    DIR *dir = opendir(database);
    struct dirent *e;
    uint64_t n_bytes = 0;
    struct stat st;
    while (dir && (e = readdir(dir)) != NULL) {
        char *end;
        uint64_t number = strtoull(e->d_name, &end, 10);
        if (end != e->d_name && strcmp(end, ".log") == 0 &&
            (number >= list->log || number == list->previous_log) &&
            fstatat(dirfd(dir), e->d_name, &st, 0) == 0)
            n_bytes += (uint64_t)st.st_size;
    }
    if (dir)
        closedir(dir);
    return n_bytes;
}
