/* A program that acts out its arguments, one after another, so that a test knows the true values to be measured.

   take MB          allocate memory                     free             release all allocated memory
   touch            write to all allocated memory       grow MB MB/S     allocate evenly, at this speed
   hold SECONDS     do nothing                          burn SECONDS     keep a core busy, for this much CPU time
   map FILE         map a file and read all of it       share MB         allocate memory that children share
   write FILE MB    write a file                        read FILE        read a file to its end
   open FILE MB     write a file and keep it open       unlink FILE      delete a file
   fork { ... }     run it in a child                   daemon { ... }   run it in a grandchild in its own session
   thread { ... }   run it in a child of a thread       wait             wait for all children
   ignore-children  never wait for them                 many N           N children, one after another, that do nothing
   exec ...         become another program              exit STATUS      end
   leave { ... }    run it in a second thread, and end the first
   maps MB N        map the same memory N times         pages FILE A B   map a file, read the pages from A to B MB
   meet N           wait until N processes have reached this point

   On a busy machine the monitor, which is our parent, may have to wait for a CPU, and cannot see what happens
   meanwhile. Therefore `hold` is extended by the time for which it had to wait, and `grow`, `touch` and `many` pause
   until it has had its turn: whatever else runs, a test sees what the monitor does when it can work. */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MB (1024L * 1024L)

static char *taken[4096];
static size_t sizes[4096];
static int count;
static int *met; /* how many have reached `meet`; shared by all processes */
static volatile int forked;
static pid_t monitor;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void doze(double seconds) {
    struct timespec t = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    while (nanosleep(&t, &t)) {
    }
}

/* The beginning of a file; empty if it does not exist. */
static const char *beginning(const char *path) {
    static __thread char text[4096];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[length > 0 ? length : 0] = 0;
    return text;
}

static const char *of_the_monitor(const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)monitor, name);
    return beginning(path);
}

/* The seconds for which the monitor was ready but not running, or the host held up the machine. */
static double kept_waiting(void) {
    long long waited = 0, stolen = 0;
    sscanf(of_the_monitor("schedstat"), "%*d %lld", &waited);
    sscanf(beginning("/proc/stat"), "cpu %*d %*d %*d %*d %*d %*d %*d %lld", &stolen);
    return waited * 1e-9 + (double)stolen / sysconf(_SC_CLK_TCK);
}

/* Whether the monitor is working, or waiting for a CPU. */
static int monitor_is_at_work(void) {
    const char *name_ends = strrchr(of_the_monitor("stat"), ')');
    return name_ends && name_ends[2] == 'R';
}

static void hold(double seconds) {
    double end = now() + seconds - kept_waiting();
    for (;;) {
        double left = end + kept_waiting() - now();
        if (left <= 0 && !monitor_is_at_work())
            return;
        doze(left > 0.001 ? left : 0.001);
    }
}

static char *allocate(size_t size, int flags) {
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        err(1, "mmap");
    return memory;
}

static void take(size_t size, int flags) {
    taken[count] = allocate(size, flags);
    memset(taken[count], 1, size);
    sizes[count++] = size;
}

/* Write to memory at this speed, while the monitor is not working. */
static void write_evenly(char *memory, size_t size, double rate) {
    double due = 0, before = now();
    for (size_t done = 0; done < size;) {
        doze(0.0002);
        double passed = now() - before;
        before += passed;
        if (monitor_is_at_work())
            continue;
        due += rate * (passed < 0.002 ? passed : 0.002); /* do not catch up after having had to wait */
        size_t until = due < size ? (size_t)due : size;
        memset(memory + done, 2, until - done);
        done = until;
    }
}

/* Pages of 4 KiB, a few at a time, like a program that reads and appends. */
static void grow(size_t size, double rate) {
    char *memory = allocate(size, MAP_PRIVATE);
    madvise(memory, size, MADV_NOHUGEPAGE);
    write_evenly(memory, size, rate);
    taken[count] = memory;
    sizes[count++] = size;
}

static double cpu_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void map_file(const char *path) {
    int file = open(path, O_RDONLY);
    struct stat status;
    if (file < 0 || fstat(file, &status))
        err(1, "%s", path);
    volatile char *memory = mmap(NULL, status.st_size, PROT_READ, MAP_SHARED, file, 0);
    volatile char sum = 0;
    for (off_t at = 0; at < status.st_size; at += 4096)
        sum += memory[at];
}

static void write_file(const char *path, size_t size, int keep) {
    static char block[MB];
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0)
        err(1, "%s", path);
    for (size_t done = 0; done < size; done += MB)
        if (write(file, block, MB) != MB)
            err(1, "write");
    if (!keep)
        close(file);
}

static void read_file(const char *path) {
    static char block[MB];
    int file = open(path, O_RDONLY);
    if (file < 0)
        err(1, "%s", path);
    while (read(file, block, MB) > 0) {
    }
    close(file);
}

static void map_again(size_t size, int times) {
    int file = memfd_create("actor", 0);
    if (file < 0 || ftruncate(file, size))
        err(1, "memfd");
    for (int i = 0; i < times; i++)
        memset(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), 1, size);
}

static void read_pages(const char *path, long from, long to) {
    int file = open(path, O_RDONLY);
    if (file < 0)
        err(1, "%s", path);
    volatile char *memory = mmap(NULL, to * MB, PROT_READ, MAP_SHARED, file, 0);
    volatile char sum = 0;
    for (long at = from * MB; at < to * MB; at += 4096)
        sum += memory[at];
}

static void act(char **words);

static void *act_in_thread(void *words) {
    act(words);
    exit(0);
}

static void *fork_in_thread(void *words) {
    if (fork() == 0) {
        act(words);
        _exit(0);
    }
    forked = 1;
    doze(3600);
    return NULL;
}

/* The word after the block that begins here. */
static char **after(char **words) {
    int depth = 0;
    for (;; words++) {
        if (!*words)
            errx(1, "a block has no end");
        if (!strcmp(*words, "{"))
            depth++;
        if (!strcmp(*words, "}") && --depth == 0)
            return words + 1;
    }
}

static void act(char **words) {
    while (*words && strcmp(*words, "}")) {
        char *word = *words++;
        if (!strcmp(word, "take")) {
            take(atol(*words++) * MB, MAP_PRIVATE);
        } else if (!strcmp(word, "share")) {
            take(atol(*words++) * MB, MAP_SHARED);
        } else if (!strcmp(word, "touch")) {
            for (int i = 0; i < count; i++)
                write_evenly(taken[i], sizes[i], 1000.0 * MB);
        } else if (!strcmp(word, "grow")) {
            size_t size = atol(*words++) * MB;
            grow(size, atof(*words++) * MB);
        } else if (!strcmp(word, "free")) {
            while (count > 0) {
                count--;
                munmap(taken[count], sizes[count]);
            }
        } else if (!strcmp(word, "hold")) {
            hold(atof(*words++));
        } else if (!strcmp(word, "burn")) {
            for (double end = cpu_time() + atof(*words++); cpu_time() < end;) {
            }
        } else if (!strcmp(word, "map")) {
            map_file(*words++);
        } else if (!strcmp(word, "write") || !strcmp(word, "open")) {
            char *path = *words++;
            write_file(path, atol(*words++) * MB, word[0] == 'o');
        } else if (!strcmp(word, "read")) {
            read_file(*words++);
        } else if (!strcmp(word, "unlink")) {
            unlink(*words++);
        } else if (!strcmp(word, "fork")) {
            if (fork() == 0) {
                act(words + 1);
                _exit(0);
            }
            words = after(words);
        } else if (!strcmp(word, "daemon")) {
            if (fork() == 0) {
                setsid();
                if (fork() == 0) {
                    act(words + 1);
                }
                _exit(0);
            }
            wait(NULL);
            words = after(words);
        } else if (!strcmp(word, "thread")) {
            pthread_t thread;
            pthread_create(&thread, NULL, fork_in_thread, words + 1);
            while (!forked)
                doze(0.001);
            words = after(words);
        } else if (!strcmp(word, "leave")) {
            pthread_t thread;
            pthread_create(&thread, NULL, act_in_thread, words + 1);
            pthread_exit(NULL);
        } else if (!strcmp(word, "maps")) {
            size_t size = atol(*words++) * MB;
            map_again(size, atoi(*words++));
        } else if (!strcmp(word, "pages")) {
            char *path = *words++;
            long from = atol(*words++);
            read_pages(path, from, atol(*words++));
        } else if (!strcmp(word, "wait")) {
            while (wait(NULL) > 0) {
            }
        } else if (!strcmp(word, "meet")) {
            int all = atoi(*words++);
            for (__atomic_add_fetch(met, 1, __ATOMIC_SEQ_CST); __atomic_load_n(met, __ATOMIC_SEQ_CST) < all;)
                doze(0.001);
        } else if (!strcmp(word, "ignore-children")) {
            signal(SIGCHLD, SIG_IGN);
        } else if (!strcmp(word, "many")) {
            for (int n = atoi(*words++); n > 0; n--) {
                while (monitor_is_at_work()) /* the kernel drops records that are not read for long */
                    doze(0.0002);
                pid_t child = vfork();
                if (child == 0)
                    _exit(0);
                waitpid(child, NULL, 0);
            }
        } else if (!strcmp(word, "exec")) {
            execvp(words[0], words);
            err(1, "%s", words[0]);
        } else if (!strcmp(word, "exit")) {
            exit(atoi(*words++));
        } else {
            errx(1, "unknown word %s", word);
        }
    }
}

int main(int count_of_words, char **words) {
    (void)count_of_words;
    monitor = getppid();
    met = (int *)allocate(sizeof *met, MAP_SHARED);
    act(words + 1);
    return 0;
}
