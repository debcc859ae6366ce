/* Faults in the calls that change files: counted, recorded, failed, cut short, or met by a kill.
 *
 * Loaded before libc by LD_PRELOAD, it stands in for the calls by which a process changes files. Only calls
 * about files below one folder count; all others pass through. Each call that counts has a number. One number,
 * or a run of them, can be armed: the call then fails with an errno, writes half of its bytes, or is where the
 * process dies of SIGKILL. With a log, every call that succeeded is written down with its bytes, in the order in
 * which they happened, so that a power cut can be played back (attacks/power.py).
 *
 * Nothing of simindex is changed for it: what is tested is what users have. Linux and glibc only.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN = 1, WRITE = 2, SYNC = 4, TRUNCATE = 8, RENAME = 16, UNLINK = 32, MKDIR = 64, MAP = 128, MARK = 256, ALLOCATE = 512 };
enum { NOTHING, FAIL, SHORT, KILL_BEFORE, KILL_HALF, KILL_AFTER };
enum { IS_CREATED = 1, IS_CUT = 2, IS_DURABLE = 4, IS_FOLDER = 8 };

/* One entry of the log; then `size` bytes of data or of a path, then `size2` bytes of a second path. */
struct entry {
    uint32_t kind, flags;
    uint64_t inode;
    int64_t offset;
    uint64_t size, size2;
};

#define MOST_FILES 65536
static unsigned char watched[MOST_FILES], durable[MOST_FILES];
static char root[PATH_MAX];
static size_t root_length;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_file = -1, kinds, action, error_number;
static long counter, first, last;
static volatile long fired;

#define REAL(type, name, ...)                                                                                        \
    static type (*real)(__VA_ARGS__);                                                                                \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

/* ---- what a harness calls ---- */

__attribute__((visibility("default"))) void faults_watch(const char *folder)
{
    root_length = strlen(folder);
    memcpy(root, folder, root_length + 1);
    memset(watched, 0, sizeof watched);
}

__attribute__((visibility("default"))) void faults_arm(int what, int which, long from, long to, int error)
{
    pthread_mutex_lock(&lock);
    kinds = which, action = what, first = from, last = to, error_number = error;
    counter = fired = 0;
    pthread_mutex_unlock(&lock);
}

__attribute__((visibility("default"))) long faults_counted(void) { return counter; }
__attribute__((visibility("default"))) long faults_fired(void) { return fired; }
__attribute__((visibility("default"))) void faults_log(int file) { log_file = file; }

/* ---- counting and the log ---- */

static void put(const void *bytes, size_t size)
{
    while (size) {
        ssize_t done = syscall(SYS_write, log_file, bytes, size);
        if (done <= 0) abort();
        bytes = (const char *)bytes + done, size -= (size_t)done;
    }
}

static void record(uint32_t kind, uint32_t flags, uint64_t inode, int64_t offset, const void *data, size_t size,
                   const char *second)
{
    if (log_file < 0) return;
    struct entry entry = {kind, flags, inode, offset, size, second ? strlen(second) : 0};
    put(&entry, sizeof entry);
    if (data) put(data, size);
    if (second) put(second, entry.size2);
}

__attribute__((visibility("default"))) void faults_mark(long number)
{
    pthread_mutex_lock(&lock);
    record(MARK, 0, (uint64_t)number, 0, NULL, 0, NULL);
    pthread_mutex_unlock(&lock);
}

/* What becomes of a call of that kind; SIGKILL before it, if that is what. */
static int fate_of(int kind)
{
    if (!(kinds & kind) || !action) return NOTHING;
    counter++;
    if (counter < first || counter > last) return NOTHING;
    fired++;
    if (action == KILL_BEFORE || (action == KILL_HALF && kind != WRITE)) kill(getpid(), SIGKILL);
    return action;
}

static void end_if(int fate) { if (fate == KILL_AFTER || fate == KILL_HALF) kill(getpid(), SIGKILL); }

static uint64_t inode_of(int file)
{
    struct stat found;
    return fstat(file, &found) ? 0 : found.st_ino;
}

static int is_below(const char *path)
{
    return root_length && path && !strncmp(path, root, root_length) &&
           (path[root_length] == '/' || !path[root_length]);
}

static ssize_t path_of(int file, char *buffer)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    return readlink(link, buffer, PATH_MAX - 1);
}

/* The full path of a name. Links and ".." in it are not followed; the harness has none. */
static const char *full(int folder, const char *path, char *buffer)
{
    if (!path || path[0] == '/') return path;
    ssize_t size;
    if (folder == AT_FDCWD)
        size = getcwd(buffer, PATH_MAX) ? (ssize_t)strlen(buffer) : -1;
    else
        size = path_of(folder, buffer);
    if (size < 0 || (size_t)size + strlen(path) + 2 > PATH_MAX) return path;
    buffer[size] = '/';
    strcpy(buffer + size + 1, path);
    return buffer;
}

static int is_watched(int file) { return root_length && file >= 0 && file < MOST_FILES && watched[file]; }

/* ---- open and close ---- */

static int open_any(int folder, const char *path, int flags, mode_t mode)
{
    REAL(int, "openat", int, const char *, int, ...);
    char buffer[PATH_MAX];
    const char *whole = full(folder, path, buffer);
    if (!is_below(whole)) return real(folder, path, flags, mode);
    struct stat before;
    pthread_mutex_lock(&lock);
    int fate = fate_of(OPEN), is_created = (flags & O_CREAT) && lstat(whole, &before), file = -1;
    if (fate == FAIL || fate == SHORT) {
        errno = error_number;
    } else if ((file = real(folder, path, flags, mode)) >= 0) {
        if (file < MOST_FILES) watched[file] = 1, durable[file] = (flags & (O_DSYNC | O_SYNC)) != 0;
        struct stat found;
        fstat(file, &found);
        if (is_created || (flags & O_TRUNC))
            record(OPEN, (is_created ? IS_CREATED : 0) | (flags & O_TRUNC ? IS_CUT : 0), found.st_ino, 0, whole,
                   strlen(whole), NULL);
        end_if(fate);
    }
    pthread_mutex_unlock(&lock);
    return file;
}

#define MODE(flags)                                                                                                  \
    mode_t mode = 0;                                                                                                 \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                                           \
        va_list rest;                                                                                                \
        va_start(rest, flags);                                                                                       \
        mode = va_arg(rest, mode_t);                                                                                 \
        va_end(rest);                                                                                                \
    }

int open(const char *path, int flags, ...) { MODE(flags) return open_any(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_any(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags) return open_any(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE(flags) return open_any(folder, path, flags, mode); }

int close(int file)
{
    REAL(int, "close", int);
    if (file >= 0 && file < MOST_FILES) watched[file] = 0;
    return real(file);
}

/* ---- writes ---- */

static ssize_t after_write(int file, const struct iovec *parts, int count, off_t offset, ssize_t done, int fate)
{
    if (done > 0 && log_file >= 0) {
        struct entry entry = {WRITE, durable[file] ? IS_DURABLE : 0, inode_of(file), offset, (uint64_t)done, 0};
        put(&entry, sizeof entry);
        size_t left = (size_t)done;
        for (int part = 0; part < count && left; part++) {
            size_t size = parts[part].iov_len < left ? parts[part].iov_len : left;
            put(parts[part].iov_base, size);
            left -= size;
        }
    }
    end_if(fate);
    pthread_mutex_unlock(&lock);
    return done;
}

/* Writes of all kinds go through here; offset -1: at the file's position. */
static ssize_t write_any(int file, const struct iovec *parts, int count, off_t offset)
{
    struct iovec half;
    if (!is_watched(file))
        return offset < 0 ? syscall(SYS_writev, file, parts, count)
                          : syscall(SYS_pwritev, file, parts, count, (long)offset, 0L);
    pthread_mutex_lock(&lock);
    int fate = fate_of(WRITE);
    if (fate == FAIL) {
        errno = error_number;
        pthread_mutex_unlock(&lock);
        return -1;
    }
    off_t at = offset < 0 ? lseek(file, 0, SEEK_CUR) : offset;
    if (fate == SHORT || fate == KILL_HALF) {
        half.iov_base = parts[0].iov_base, half.iov_len = (parts[0].iov_len + 1) / 2;
        parts = &half, count = 1;
    }
    ssize_t done = offset < 0 ? syscall(SYS_writev, file, parts, count)
                              : syscall(SYS_pwritev, file, parts, count, (long)offset, 0L);
    return after_write(file, parts, count, at, done, fate);
}

ssize_t write(int file, const void *bytes, size_t size)
{
    if (!is_watched(file)) return syscall(SYS_write, file, bytes, size);
    struct iovec part = {(void *)bytes, size};
    return write_any(file, &part, 1, -1);
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset)
{
    struct iovec part = {(void *)bytes, size};
    return write_any(file, &part, 1, offset);
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t offset) { return pwrite(file, bytes, size, offset); }
ssize_t writev(int file, const struct iovec *parts, int count) { return write_any(file, parts, count, -1); }
ssize_t pwritev(int file, const struct iovec *parts, int count, off_t offset) { return write_any(file, parts, count, offset); }
ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t offset) { return write_any(file, parts, count, offset); }

/* ---- syncs, lengths and maps ---- */

#define ON_FILE(kind, failed, call, length_of)                                                             \
    if (!is_watched(file)) return call;                                                                              \
    pthread_mutex_lock(&lock);                                                                                       \
    int fate = fate_of(kind), done;                                                                                  \
    if (fate == FAIL || fate == SHORT) {                                                                             \
        errno = error_number, done = failed;                                                                         \
    } else if ((done = call) != failed) {                                                                            \
        record(kind, 0, inode_of(file), length_of, NULL, 0, NULL);                                            \
        end_if(fate);                                                                                                \
    }                                                                                                                \
    pthread_mutex_unlock(&lock);                                                                                     \
    return done;

int fsync(int file)
{
    struct stat found;
    char buffer[PATH_MAX];
    if (!is_watched(file)) return (int)syscall(SYS_fsync, file);
    pthread_mutex_lock(&lock);
    int fate = fate_of(SYNC), done = -1, is_folder = !fstat(file, &found) && S_ISDIR(found.st_mode);
    if (fate == FAIL || fate == SHORT) {
        errno = error_number;
    } else if (!(done = (int)syscall(SYS_fsync, file))) {
        ssize_t size = is_folder ? path_of(file, buffer) : 0;
        record(SYNC, is_folder ? IS_FOLDER : 0, inode_of(file), 0, buffer, size > 0 ? (size_t)size : 0, NULL);
        end_if(fate);
    }
    pthread_mutex_unlock(&lock);
    return done;
}
int fdatasync(int file) { ON_FILE(SYNC, -1, (int)syscall(SYS_fdatasync, file), 0) }
int ftruncate(int file, off_t size) { ON_FILE(TRUNCATE, -1, (int)syscall(SYS_ftruncate, file, size), size) }
int ftruncate64(int file, off64_t size) { return ftruncate(file, size); }

int truncate(const char *path, off_t size)
{
    if (!is_below(path)) return (int)syscall(SYS_truncate, path, size);
    int file = open(path, O_WRONLY), done = file < 0 ? -1 : ftruncate(file, size), number = errno;
    if (file >= 0) close(file);
    errno = number;
    return done;
}
int truncate64(const char *path, off64_t size) { return truncate(path, size); }

int posix_fallocate(int file, off_t offset, off_t size)
{
    REAL(int, "posix_fallocate", int, off_t, off_t);
    if (!is_watched(file)) return real(file, offset, size);
    pthread_mutex_lock(&lock);
    int fate = fate_of(TRUNCATE), done = fate == FAIL || fate == SHORT ? error_number : real(file, offset, size);
    if (!done) record(TRUNCATE, 0, inode_of(file), offset + size, NULL, 0, NULL), end_if(fate);
    pthread_mutex_unlock(&lock);
    return done;
}
int posix_fallocate64(int file, off64_t offset, off64_t size) { return posix_fallocate(file, offset, size); }

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    if (is_watched(file)) {
        pthread_mutex_lock(&lock);
        int fate = fate_of(MAP);
        pthread_mutex_unlock(&lock);
        if (fate == FAIL || fate == SHORT) {
            errno = ENOMEM;
            return MAP_FAILED;
        }
    }
    return (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset);
}
void *mmap64(void *address, size_t size, int protection, int flags, int file, off64_t offset)
{
    return mmap(address, size, protection, flags, file, offset);
}

/* ---- LMDB's memory, while ALLOCATE is armed. NumPy's is left alone: NumPy 2 dies of some of its failures. ---- */

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

static int is_refused(void *caller)
{
    Dl_info found;
    if (!(kinds & ALLOCATE) || action != FAIL) return 0;
    if (!dladdr(caller, &found) || !found.dli_fname || !strstr(found.dli_fname, "lmdb")) return 0;
    long number = __atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED);
    if (number < first || number > last) return 0;
    fired++;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) { return is_refused(__builtin_return_address(0)) ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return is_refused(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return is_refused(__builtin_return_address(0)) ? NULL : __libc_realloc(old, size); }

/* ---- names ---- */

static int rename_any(int from_folder, const char *from, int to_folder, const char *to)
{
    char buffer[PATH_MAX], buffer2[PATH_MAX];
    const char *whole = full(from_folder, from, buffer), *whole2 = full(to_folder, to, buffer2);
    if (!is_below(whole) && !is_below(whole2)) return (int)syscall(SYS_renameat, from_folder, from, to_folder, to);
    pthread_mutex_lock(&lock);
    int fate = fate_of(RENAME), done = -1;
    if (fate == FAIL || fate == SHORT) {
        errno = error_number;
    } else if (!(done = (int)syscall(SYS_renameat, from_folder, from, to_folder, to))) {
        record(RENAME, 0, 0, 0, whole, strlen(whole), whole2);
        end_if(fate);
    }
    pthread_mutex_unlock(&lock);
    return done;
}
int rename(const char *from, const char *to) { return rename_any(AT_FDCWD, from, AT_FDCWD, to); }
int renameat(int a, const char *from, int b, const char *to) { return rename_any(a, from, b, to); }

static int on_name(int kind, int folder, const char *path, long call, long extra)
{
    char buffer[PATH_MAX];
    const char *whole = full(folder, path, buffer);
    if (!is_below(whole)) return (int)syscall(call, folder, path, extra);
    pthread_mutex_lock(&lock);
    int fate = fate_of(kind), done = -1;
    if (fate == FAIL || fate == SHORT) {
        errno = error_number;
    } else if (!(done = (int)syscall(call, folder, path, extra))) {
        record((uint32_t)kind, call == SYS_unlinkat && (extra & AT_REMOVEDIR) ? IS_FOLDER : 0, 0, 0, whole,
               strlen(whole), NULL);
        end_if(fate);
    }
    pthread_mutex_unlock(&lock);
    return done;
}
int unlink(const char *path) { return on_name(UNLINK, AT_FDCWD, path, SYS_unlinkat, 0); }
int unlinkat(int folder, const char *path, int flags) { return on_name(UNLINK, folder, path, SYS_unlinkat, flags); }
int rmdir(const char *path) { return on_name(UNLINK, AT_FDCWD, path, SYS_unlinkat, AT_REMOVEDIR); }
int mkdir(const char *path, mode_t mode) { return on_name(MKDIR, AT_FDCWD, path, SYS_mkdirat, mode); }
int mkdirat(int folder, const char *path, mode_t mode) { return on_name(MKDIR, folder, path, SYS_mkdirat, mode); }
