/* The directory of a database: which engine's is it, and how much log has it? */
#include <dirent.h>
#include <sys/stat.h>

#include "bridge.h"

/* RocksDB writes these beside the files that LevelDB has, too. */
static bool is_rocksdb(DIR *dir)
{
    const struct dirent *e;
    bool found = false;
    while (!found && (e = readdir(dir)) != NULL)
        found = strcmp(e->d_name, "IDENTITY") == 0 ||
                strncmp(e->d_name, "OPTIONS-", 8) == 0;
    return found;
}

int bridge_check_database(const char *path, bool rocksdb)
{
    static const char *const names[] = {"LevelDB", "RocksDB"};
    struct stat st;
    if (stat(path, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? complain(EXIT_NONE, "%s: no such directory", path)
                   : complain_errno(errno, path, "opening");
    DIR *dir = opendir(path);
    if (dir == NULL)
        return errno == ENOTDIR
                   ? complain(EXIT_DAMAGE, "%s: no %s database: it is no directory",
                              path, names[rocksdb])
                   : complain_errno(errno, path, "opening");
    bool has_list = fstatat(dirfd(dir), "CURRENT", &st, 0) == 0;
    bool other = is_rocksdb(dir) != rocksdb;
    closedir(dir);
    if (!has_list)
        return complain(EXIT_DAMAGE, "%s: no %s database: it has no CURRENT", path,
                        names[rocksdb]);
    if (!other)
        return EXIT_DONE;
    return complain(EXIT_DAMAGE,
                    "%s: this is a %s database: use tamis-%s; nothing was changed",
                    path, names[!rocksdb], rocksdb ? "leveldb" : "rocksdb");
}

uint64_t bridge_log_bytes(const char *path, uint64_t from, uint64_t also)
{
    DIR *dir = opendir(path);
    struct dirent *e;
    uint64_t n_bytes = 0;
    struct stat st;
    while (dir && (e = readdir(dir)) != NULL) {
        char *end;
        uint64_t number = strtoull(e->d_name, &end, 10);
        if (end != e->d_name && strcmp(end, ".log") == 0 &&
            (number >= from || number == also) &&
            fstatat(dirfd(dir), e->d_name, &st, 0) == 0)
            n_bytes += (uint64_t)st.st_size;
    }
    if (dir)
        closedir(dir);
    return n_bytes;
}
