/* A libnvidia-ml.so with no GPU behind it: it answers from a small text file, the "world", which it reads again at
 * every call, so that a test can change what the library says while a program has it loaded.
 *
 * The world is the file named by WARPYARD_FAKE_NVML, or else <this library's own path>.world. Without one there is
 * "no driver". A line is a word and its value; lines after `gpu` describe that GPU; `#` begins a comment:
 *
 *     driver 550.54.15          the driver's version
 *     init 18                   what nvmlInit_v2 returns (0 unless given)
 *     gpu GPU-1111              a GPU, by its uuid; take its lines away and it is no longer found
 *     name Tesla V100-SXM2-16GB
 *     pci 00000000:3B:00.0
 *     minor 0                   the number of its node, /dev/nvidia0; without the line it is not supported
 *     memory 17179869184        bytes in all
 *     reserved 268435456        bytes the driver keeps
 *     used 4000000              bytes in use besides those
 *     utilisation 35            percent; without the line it is not supported
 *     temperature 61            degrees; likewise
 *     power 143000              milliwatts; likewise
 *     compute 4242 3100000000   a process that computes, and its bytes (- for not known)
 *     graphics 900 20000000     one that draws
 *     lost                      the GPU fell off the bus
 *     error 999                 every question about this GPU is answered with this code
 *
 * Build it with build.sh, or with build() of mod.rs. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9,
    GPU_IS_LOST = 15, UNKNOWN = 999
};
enum { MOST_GPUS = 64, MOST_PROCESSES = 64, TEXT = 96 };

typedef unsigned long long bytes_t;
typedef const char *device_t; /* the GPU's uuid, kept for good in `handles` */

typedef struct { unsigned pid; bytes_t used; unsigned gpu_instance, compute_instance; } process_t;
typedef struct { unsigned version; bytes_t total, reserved, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } utilisation_t;
typedef struct {
    char legacy_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} pci_t;

typedef struct { process_t at[MOST_PROCESSES]; unsigned count; } processes_t;
typedef struct {
    char uuid[TEXT], name[TEXT], pci[32];
    bytes_t memory, reserved, used;
    long utilisation, temperature, power, minor; /* -1: not supported */
    int code;                             /* what questions about it are answered with */
    processes_t compute, graphics;
} gpu_t;
typedef struct { char driver[TEXT]; int init; unsigned count; gpu_t gpus[MOST_GPUS]; } world_t;

static void copy(char *to, size_t size, const char *from) { snprintf(to, size, "%s", from); }

static void add_process(processes_t *list, const char *value) {
    char used[32];
    unsigned pid;
    if (list->count == MOST_PROCESSES || sscanf(value, "%u %31s", &pid, used) != 2) return;
    bytes_t known = used[0] == '-' ? (bytes_t)-1 : strtoull(used, NULL, 10);
    list->at[list->count++] = (process_t){pid, known, 0xffffffffu, 0xffffffffu};
}

static void describe(gpu_t *gpu, const char *word, const char *value) {
    if (!strcmp(word, "name")) copy(gpu->name, sizeof gpu->name, value);
    else if (!strcmp(word, "pci")) copy(gpu->pci, sizeof gpu->pci, value);
    else if (!strcmp(word, "memory")) gpu->memory = strtoull(value, NULL, 10);
    else if (!strcmp(word, "reserved")) gpu->reserved = strtoull(value, NULL, 10);
    else if (!strcmp(word, "used")) gpu->used = strtoull(value, NULL, 10);
    else if (!strcmp(word, "utilisation")) gpu->utilisation = atol(value);
    else if (!strcmp(word, "temperature")) gpu->temperature = atol(value);
    else if (!strcmp(word, "power")) gpu->power = atol(value);
    else if (!strcmp(word, "minor")) gpu->minor = atol(value);
    else if (!strcmp(word, "compute")) add_process(&gpu->compute, value);
    else if (!strcmp(word, "graphics")) add_process(&gpu->graphics, value);
    else if (!strcmp(word, "lost")) gpu->code = GPU_IS_LOST;
    else if (!strcmp(word, "error")) gpu->code = atoi(value);
    else fprintf(stderr, "fake NVML: '%s' is not a word of the world file\n", word);
}

static void read_line(world_t *world, char *line) {
    line[strcspn(line, "#\n")] = '\0';
    char *word = line + strspn(line, " \t");
    char *value = word + strcspn(word, " \t");
    if (*value) *value++ = '\0';
    value += strspn(value, " \t");
    for (size_t n = strlen(value); n && (value[n - 1] == ' ' || value[n - 1] == '\t'); n--) value[n - 1] = '\0';
    if (!*word) return;
    if (!strcmp(word, "driver")) copy(world->driver, sizeof world->driver, value);
    else if (!strcmp(word, "init")) world->init = atoi(value);
    else if (!strcmp(word, "gpu")) {
        if (world->count == MOST_GPUS) return;
        gpu_t *gpu = &world->gpus[world->count++];
        copy(gpu->uuid, sizeof gpu->uuid, value);
        gpu->utilisation = gpu->temperature = gpu->power = gpu->minor = -1;
    } else if (world->count) describe(&world->gpus[world->count - 1], word, value);
}

static FILE *open_world(void) {
    const char *named = getenv("WARPYARD_FAKE_NVML");
    if (named) return fopen(named, "r");
    Dl_info self;
    char beside[4096];
    if (!dladdr((void *)open_world, &self)) return NULL;
    snprintf(beside, sizeof beside, "%s.world", self.dli_fname);
    return fopen(beside, "r");
}

/* The world as it is now; the caller frees it. NULL: there is none. */
static world_t *look(void) {
    FILE *file = open_world();
    if (!file) return NULL;
    world_t *world = calloc(1, sizeof *world);
    char line[512];
    while (world && fgets(line, sizeof line, file)) read_line(world, line);
    fclose(file);
    return world;
}

static device_t handle(const char *uuid) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char *handles[4096];
    static unsigned count;
    device_t found = NULL;
    pthread_mutex_lock(&lock);
    for (unsigned n = 0; n < count && !found; n++)
        if (!strcmp(handles[n], uuid)) found = handles[n];
    if (!found && count < 4096) found = handles[count++] = strdup(uuid);
    pthread_mutex_unlock(&lock);
    return found;
}

/* A copy of the GPU behind a handle, or the code that says why there is none. */
static int behind(device_t device, gpu_t *gpu) {
    world_t *world = look();
    int code = world ? GPU_IS_LOST : DRIVER_NOT_LOADED;
    for (unsigned n = 0; world && n < world->count; n++)
        if (!strcmp(world->gpus[n].uuid, device)) {
            *gpu = world->gpus[n];
            code = gpu->code;
        }
    free(world);
    return code;
}

static int text(char *to, unsigned size, const char *from) {
    if (strlen(from) >= size) return INSUFFICIENT_SIZE;
    strcpy(to, from);
    return OK;
}

static int list(device_t device, unsigned *count, process_t *out, int graphics) {
    gpu_t gpu;
    int code = behind(device, &gpu);
    if (code) return code;
    const processes_t *found = graphics ? &gpu.graphics : &gpu.compute;
    unsigned room = *count;
    *count = found->count;
    if (found->count > room) return INSUFFICIENT_SIZE;
    if (found->count) memcpy(out, found->at, found->count * sizeof *out);
    return OK;
}

int nvmlInit_v2(void) {
    world_t *world = look();
    int code = world ? world->init : DRIVER_NOT_LOADED;
    free(world);
    return code;
}

int nvmlShutdown(void) { return OK; }

int nvmlSystemGetDriverVersion(char *version, unsigned size) {
    world_t *world = look();
    int code = world ? text(version, size, world->driver) : DRIVER_NOT_LOADED;
    free(world);
    return code;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    world_t *world = look();
    if (!world) return DRIVER_NOT_LOADED;
    *count = world->count;
    free(world);
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t *device) {
    world_t *world = look();
    int code = DRIVER_NOT_LOADED;
    if (world) code = index < world->count ? world->gpus[index].code : INVALID_ARGUMENT;
    if (world && !code) *device = handle(world->gpus[index].uuid);
    free(world);
    return code;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device_t *device) {
    world_t *world = look();
    int code = world ? NOT_FOUND : DRIVER_NOT_LOADED;
    for (unsigned n = 0; world && n < world->count; n++)
        if (!strcmp(world->gpus[n].uuid, uuid)) {
            *device = handle(uuid);
            code = OK;
        }
    free(world);
    return code;
}

int nvmlDeviceGetUUID(device_t device, char *uuid, unsigned size) {
    gpu_t gpu;
    int code = behind(device, &gpu);
    return code ? code : text(uuid, size, gpu.uuid);
}

int nvmlDeviceGetName(device_t device, char *name, unsigned size) {
    gpu_t gpu;
    int code = behind(device, &gpu);
    return code ? code : text(name, size, gpu.name);
}

int nvmlDeviceGetPciInfo_v3(device_t device, pci_t *pci) {
    gpu_t gpu;
    int code = behind(device, &gpu);
    if (code) return code;
    memset(pci, 0, sizeof *pci);
    if (sscanf(gpu.pci, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3) return UNKNOWN;
    copy(pci->bus_id, sizeof pci->bus_id, gpu.pci);
    return OK;
}

int nvmlDeviceGetMinorNumber(device_t device, unsigned *minor) {
    gpu_t gpu;
    int code = behind(device, &gpu);
    if (code) return code;
    if (gpu.minor < 0) return NOT_SUPPORTED;
    *minor = (unsigned)gpu.minor;
    return OK;
}

#ifndef OLD_DRIVER /* drivers before 510 have neither these lists nor this description of memory */
int nvmlDeviceGetMemoryInfo_v2(device_t device, memory_t *memory) {
    gpu_t gpu;
    int code = behind(device, &gpu);
    if (code) return code;
    if (memory->version != (sizeof *memory | 2u << 24)) return INVALID_ARGUMENT;
    memory->total = gpu.memory;
    memory->reserved = gpu.reserved;
    memory->used = gpu.used;
    memory->free = gpu.memory - gpu.reserved - gpu.used;
    return OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(device_t device, unsigned *count, process_t *out) {
    return list(device, count, out, 0);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(device_t device, unsigned *count, process_t *out) {
    return list(device, count, out, 1);
}
#endif

int nvmlDeviceGetUtilizationRates(device_t device, utilisation_t *rates) {
    gpu_t gpu;
    int code = behind(device, &gpu);
    if (code) return code;
    if (gpu.utilisation < 0) return NOT_SUPPORTED;
    *rates = (utilisation_t){(unsigned)gpu.utilisation, 0};
    return OK;
}

int nvmlDeviceGetTemperature(device_t device, int sensor, unsigned *degrees) {
    gpu_t gpu;
    int code = behind(device, &gpu);
    if (code) return code;
    if (sensor != 0 || gpu.temperature < 0) return NOT_SUPPORTED;
    *degrees = (unsigned)gpu.temperature;
    return OK;
}

int nvmlDeviceGetPowerUsage(device_t device, unsigned *milliwatts) {
    gpu_t gpu;
    int code = behind(device, &gpu);
    if (code) return code;
    if (gpu.power < 0) return NOT_SUPPORTED;
    *milliwatts = (unsigned)gpu.power;
    return OK;
}
