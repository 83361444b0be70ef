/* Runs the cases, each in a directory and a process of its own, and counts. */
#include "test.h"

#include <chrono>
#include <cstring>
#include <getopt.h>
#include <sys/wait.h>
#include <unistd.h>

Settings settings = {200000, 24, 1, "", ""};

namespace
{

std::vector<std::pair<const char *, void (*)()>> &Cases()
{
    static std::vector<std::pair<const char *, void (*)()>> cases;
    return cases;
}

bool RunOne(const char *name, void (*run)())
{
    /* In memory where that is possible: SIGKILL loses nothing that was written. */
    char dir[] = "/dev/shm/tamis-rocksdb-XXXXXX", disk[] = "/tmp/tamis-rocksdb-XXXXXX";
    EXPECT(mkdtemp(dir) || (strcpy(dir, disk) && mkdtemp(dir)), "no directory");
    settings.dir = dir;
    auto began = std::chrono::steady_clock::now();
    int status = InChild(run);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    bool ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    printf("%-6s %-44s %6.1f s\n", ok ? "ok" : "FAILED", name, took.count());
    fflush(stdout);
    std::string remove = std::string("rm -rf ") + dir;
    EXPECT(system(remove.c_str()) == 0, "%s stays", dir);
    return ok;
}

} // namespace

AsCase::AsCase(const char *name, void (*run)())
{
    Cases().emplace_back(name, run);
}

int InChild(const std::function<void()> &f, unsigned kill_after_us)
{
    fflush(nullptr);
    pid_t pid = fork();
    EXPECT(pid >= 0, "no process");
    if (pid == 0) {
        f();
        fflush(nullptr);
        _exit(0);
    }
    if (kill_after_us) {
        usleep(kill_after_us);
        kill(pid, SIGKILL);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0)
        ;
    return status;
}

int main(int argc, char **argv)
{
    const option options[] = {{"keys", required_argument, nullptr, 'k'},
                              {"kills", required_argument, nullptr, 'n'},
                              {"seed", required_argument, nullptr, 's'},
                              {"tool", required_argument, nullptr, 't'},
                              {"case", required_argument, nullptr, 'c'},
                              {nullptr, 0, nullptr, 0}};
    const char *only = "";
    for (int o; (o = getopt_long(argc, argv, "", options, nullptr)) != -1;) {
        if (o == 'k')
            settings.keys = strtoull(optarg, nullptr, 10);
        else if (o == 'n')
            settings.kills = strtoull(optarg, nullptr, 10);
        else if (o == 's')
            settings.seed = strtoull(optarg, nullptr, 10);
        else if (o == 't')
            settings.tool = optarg;
        else if (o == 'c')
            only = optarg;
        else
            return 2;
    }
    unsigned passed = 0, failed = 0;
    for (const auto &[name, run] : Cases())
        if (strstr(name, only))
            (RunOne(name, run) ? passed : failed)++;
    printf("%u passed, %u failed\n", passed, failed);
    return failed || !passed;
}
