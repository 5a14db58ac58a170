/* SPDX-License-Identifier: MIT */
/*
 * Linux's answers: sched_getaffinity for cores, /proc for everything that has no call of its own.
 */
#include "benchmarks/machine.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_S = 1000000000 };

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    if (clock_gettime(clock, &now) != 0)
        return 0;
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

int64_t machine_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

int64_t machine_cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void machine_sleep_ns(int64_t duration_ns)
{
    const struct timespec duration = { duration_ns / NS_PER_S, duration_ns % NS_PER_S };
    (void)nanosleep(&duration, NULL);
}

/* Of the process before anything was pinned: a pinned thread would see its own core only. */
static cpu_set_t usable;
static pthread_once_t usable_once = PTHREAD_ONCE_INIT;

static void usable_read(void)
{
    if (sched_getaffinity(0, sizeof(usable), &usable) != 0)
        CPU_ZERO(&usable);
}

unsigned machine_cores(void)
{
    (void)pthread_once(&usable_once, usable_read);
    const int count = CPU_COUNT(&usable);
    return count > 0 ? (unsigned)count : 1;
}

void machine_pin(unsigned number)
{
    unsigned left = number % machine_cores();
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &usable))
            continue;
        if (left-- > 0)
            continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        (void)pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
        return;
    }
}

void machine_cpu_name(char *ret, size_t size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    (void)snprintf(ret, size, "unknown");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *colon = strchr(line, ':');
        if (colon == NULL || strncmp(line, "model name", 10) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        (void)snprintf(ret, size, "%s", colon[1] == ' ' ? colon + 2 : colon + 1);
        break;
    }
    if (file != NULL)
        (void)fclose(file);
}

int64_t machine_rss_bytes(void)
{
    long long total, resident;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return -1;
    const int found = fscanf(file, "%lld %lld", &total, &resident);
    (void)fclose(file);
    return found == 2 ? (int64_t)resident * sysconf(_SC_PAGESIZE) : -1;
}

static int64_t entries(const char *path)
{
    int64_t count = 0;
    DIR *folder = opendir(path);
    if (folder == NULL)
        return -1;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    (void)closedir(folder);
    return count;
}

int64_t machine_threads(void)
{
    return entries("/proc/self/task");
}

int64_t machine_descriptors(void)
{
    const int64_t count = entries("/proc/self/fd");
    return count > 0 ? count - 1 : count; /* less the folder's own */
}
