# SPDX-License-Identifier: MIT
"""Shows silos, workers and suspended turns in gdb: `source tools/teff-gdb.py`, then `help teff`.

All is read from the stopped program; nothing runs in it and nothing is written, so a core file serves as well. Silos are
found from their workers' threads, since nothing global names them. Suspended are the fibers of a worker's pool that are
neither free nor the one that the loop is on; what each runs stands in its frames, which gdb's own unwinding reads once
an unwinder has led it from the selected thread to the fiber's saved registers.

Fields, types and constants are found by name in the debug information. What is not there is said, with what to do.
"""
import bisect
import contextlib
import re
import time
import types

import gdb
import gdb.unwinder

REGISTERS = {"x86-64": ("rip", "rsp", "rbp", "rbx"), "aarch64": ("pc", "sp", "x29", "x19")}
WORKER_FRAMES = {"teff__worker_main", "teff__worker_pass", "scheduler", "run_items", "park"}
SWITCHING = ("teff__fiber_", "teff__worker_suspend", "teff__catalog_suspend")
NEVER = (1 << 63) - 1
MANY = 1 << 20  # a list that is longer was overwritten
NO_SYMBOLS = ("libteff's debug information is not there: build it with -g (meson's buildtypes debugoptimized, the default, "
              "and debug do), do not strip it, or give its symbols to gdb with `add-symbol-file` or `debuginfod`")

NO_MEMORY = ("{}: that memory is not there, or was overwritten. A core file that gdb's generate-core-file wrote lacks the "
             "stacks where Linux guards them by markers (6.13 and later): let the kernel write it, with `ulimit -c "
             "unlimited` and `kill -ABRT`")


def lookup(name):
    try:
        return gdb.lookup_type(name)
    except gdb.error:
        raise gdb.GdbError(f"there is no type {name}: {NO_SYMBOLS}") from None


def constant(name):
    for find in (gdb.lookup_static_symbol, gdb.lookup_global_symbol):
        symbol = find(name)
        if symbol is not None:
            return int(symbol.value())
    raise gdb.GdbError(f"there is no constant {name}: {NO_SYMBOLS}")


def container(node, type_name, member):
    """The structure around a member: teff__container_of."""
    outer = lookup(type_name)
    (field,) = [one for one in outer.strip_typedefs().fields() if one.name == member]
    return gdb.Value(int(node) - field.bitpos // 8).cast(outer.pointer()).dereference()


def chain(first, link="next", end=0):
    """The elements of a linked list, as pointers."""
    for _ in range(MANY):
        if int(first) == end:
            return
        if int(first) == 0:
            raise gdb.MemoryError("a ring's link is zero")
        yield first
        first = first[link]
    raise gdb.GdbError("a list of the silo's has no end: its memory was overwritten")


def variable(frame, *names):
    """A local variable or argument that has a value here, or None."""
    for name in names:
        try:
            value = frame.read_var(name)
            if not value.is_optimized_out:
                value.fetch_lazy()
                return value
        except (ValueError, gdb.error):
            pass
    return None


def frames_from(frame):
    while frame is not None and frame.is_valid():
        yield frame
        try:
            frame = frame.older()
        except gdb.error:
            return


def ready():
    """There is a program to be read, and its types are known. Returns the selected thread."""
    thread = gdb.selected_thread()
    if thread is None:
        raise gdb.GdbError("no program: start one, attach to one, or open a core file")
    if not thread.is_stopped():
        raise gdb.GdbError("the program runs: `interrupt` it first")
    for name in ("struct teff_silo", "teff__catalog"):
        lookup(name)
    return thread


@contextlib.contextmanager
def place_kept():
    """Comes back to the selected thread and frame."""
    thread = gdb.selected_thread()
    level = gdb.selected_frame().level()
    try:
        yield
    finally:
        thread.switch()
        frame = gdb.newest_frame()
        for _ in range(level):
            frame = frame.older()
        frame.select()


# --- Silos ------------------------------------------------------------------------------------------------------------

remembered = []  # addresses of silos, in the order in which they were found; the first is number 1


def silo_at(address):
    return gdb.Value(address).cast(lookup("struct teff_silo").pointer()).dereference()


def is_silo(address):
    try:
        return address != 0 and int(silo_at(address)["exchange"]["silo"]) == address
    except gdb.MemoryError:
        return False


def silo_of(worker):
    try:
        catalog = worker.cast(lookup("teff__catalog").pointer())
        known = catalog["grains"]["catalogs"][int(worker["index"])]
        silo = int(catalog["exchange"]["silo"])
        return silo if int(known) == int(catalog) and is_silo(silo) else None
    except gdb.error:
        return None


def look_for_silos():
    """Reads the threads' frames. What a frame cannot tell, because it is optimised out, an older one may."""
    hidden = None
    with place_kept():
        pointer = lookup("teff__worker").pointer()
        for thread in gdb.selected_inferior().threads():
            thread.switch()
            at = [frame for frame in frames_from(gdb.newest_frame()) if frame.name() in WORKER_FRAMES]
            workers = [variable(frame, "worker", "argument") for frame in at]
            silos = [silo_of(worker.cast(pointer)) for worker in workers if worker is not None]
            silos = [silo for silo in silos if silo is not None]
            if at and not silos:
                hidden = thread.num
            remembered.extend(silo for silo in silos[:1] if silo not in remembered)
    return hidden


def silos():
    """(number, silo) of all that are known."""
    ready()
    hidden = look_for_silos()
    remembered[:] = [address for address in remembered if is_silo(address)]
    if not remembered and hidden is not None:
        raise gdb.GdbError(f"thread {hidden} is a worker, but which is optimised out: go to a frame that has the silo in a "
                           "variable, and say `teff silos VARIABLE`; or build libteff without -flto and with -O1 or -Og")
    if not remembered:
        raise gdb.GdbError("no thread runs a worker. If the silo is simulated, or runs on a loop of the program's, go to a "
                           "frame that has it in a variable, and say `teff silos VARIABLE`")
    return [(number, silo_at(address)) for number, address in enumerate(remembered, 1)]


def catalogs(which=""):
    """(name, silo, catalog) of all workers, of one silo ("1"), or of one worker ("1.0")."""
    found = []
    for number, silo in silos():
        for index in range(int(silo["built"])):
            found.append((f"{number}.{index}", silo, silo["grains"]["catalogs"][index].dereference()))
    chosen = [one for one in found if which in ("", one[0], one[0].split(".")[0])]
    if which and not chosen:
        raise gdb.GdbError(f"there is no {which}: silos are numbered as `teff silos` does, 1, and workers as 1.0")
    return chosen


def now_ns(silo):
    """The silo's time. Of a core file, or another machine's program, what its workers read last."""
    clock = silo["exchange"]["clock"]
    if clock["simulated"]:
        return int(clock["simulated_ns"])
    connection = getattr(gdb.selected_inferior(), "connection", None)
    if connection is not None and connection.type == "native":
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return max([int(silo["grains"]["catalogs"][i]["worker"]["now_ns"]) for i in range(int(silo["built"]))], default=0)


def stripes(catalog):
    return [catalog["stripes"][index] for index in range(int(catalog["stripes_used"]))]


# --- Suspended turns and tasks ----------------------------------------------------------------------------------------


def page_bytes():
    found = re.search(r"AT_PAGESZ.*?(\d+)$", gdb.execute("info auxv", to_string=True), re.MULTILINE)
    return int(found.group(1)) if found else 4096


def pool_fibers(pool):
    """All fibers that a pool has made; see fiber_at in runtime/fiber.c, whose arithmetic this is."""
    slots, step, colours = constant("SLAB_SLOTS"), constant("COLOUR_STEP"), constant("COLOUR_BYTES")
    fiber, room = lookup("teff__fiber"), int(pool["room"])
    slot = constant("TEFF__FIBER_GUARD_BYTES") + int(pool["stack_bytes"]) + page_bytes()
    for slab in chain(pool["slabs"]):
        for index in range(slots - room):
            address = int(slab) - index * slot - index * step % colours - fiber.sizeof
            at = gdb.Value(address).cast(fiber.pointer())
            if int(at["stack_low"]) + int(at["stack_bytes"]) != address:
                raise gdb.GdbError("fibers lie elsewhere: this script belongs to another version of libteff, take that one's")
            yield at
        room = 0


def open_waits(catalog):
    """(address in a suspended frame, deadline, "waits" or "sleeps"): open callbacks, and sleepers."""
    mask, is_open = constant("TEFF__CALLBACK_STATE"), constant("TEFF__CALLBACK_OPEN")
    for stripe in stripes(catalog):
        for slot in range(int(stripe["made"]["value"])):
            callback = stripe["callbacks"][slot]
            if int(callback["word"]["value"]) & mask == is_open and int(callback["value"]) != 0:
                yield int(callback["value"]), int(stripe["columns"]["deadline_ns"][slot]["value"]), "waits"
    ring = catalog["sleepers"]
    for node in chain(ring["next"], end=int(ring.address)):
        yield int(node), int(container(node, "teff__sleeper", "ring")["timer"]["deadline_ns"]), "sleeps"


def suspended(catalog):
    """(fiber, what it does: "waits", "sleeps" or "ready", until when or None) of all on a worker that do not run."""
    waiter, worker = lookup("teff__waiter").pointer(), catalog["worker"]
    items = [item.cast(waiter) for item in chain(worker["run_queue"]["head"])]
    runnable = {int(item["fiber"]) for item in items if int(item["item"]["run"]) == 0}
    idle = {int(worker["current"])}
    for free in ("free", "trimmed"):
        idle.update(int(fiber) for fiber in chain(worker["fibers"][free]))
    waits = sorted(open_waits(catalog))
    for fiber in pool_fibers(worker["fibers"]):
        if int(fiber) in runnable:
            yield fiber, "ready", None
        elif int(fiber) not in idle:
            low, high = (bisect.bisect_left(waits, (int(address),)) for address in (fiber["stack_low"], fiber))
            _, until, does = min(waits[low:high], key=lambda wait: wait[1], default=(0, None, "waits"))
            yield fiber, does, until


def numbered():
    """{number: (worker's name, silo, fiber, what it does, until when)} of all silos."""
    found = [(name, silo, *one) for name, silo, catalog in catalogs() for one in suspended(catalog)]
    return dict(enumerate(found, 1))


class FiberUnwinder(gdb.unwinder.Unwinder):
    """While a fiber is looked at: makes its newest frame the caller of the selected thread's newest one."""

    def __init__(self):
        super().__init__("teff fibers")
        self.saved, self.top = None, None

    def __call__(self, pending):
        if self.saved is None or int(pending.read_register(self.saved[1][0])) != self.top:
            return None
        # Below the fiber's stack, so that gdb sees its frames grow outwards.
        sp, pc = gdb.Value(self.saved[1][1] - 4096), gdb.Value(self.saved[0][1])
        info = pending.create_unwind_info(types.SimpleNamespace(sp=sp, pc=pc))
        for name, value in self.saved:
            info.add_saved_register(name, gdb.Value(value).cast(pending.read_register(name).type))
        return info


unwinder = FiberUnwinder()
gdb.unwinder.register_unwinder(None, unwinder, replace=True)


@contextlib.contextmanager
def frames_of(fiber):
    """The frames of a fiber that does not run, newest first; valid inside only."""
    names = next((names for arch, names in REGISTERS.items() if arch in gdb.selected_frame().architecture().name()), None)
    if names is None or any(field.name == "context" for field in fiber.type.target().fields()):
        raise gdb.GdbError("stacks are read on x86-64 and aarch64, and not where TEFF_FIBER_UCONTEXT switches them")
    values = [int(fiber[field]) & (1 << 64) - 1 for field in ("resume", "sp", "frame", "base")]
    with place_kept():
        top = int(gdb.newest_frame().read_register(names[1]))
        try:
            unwinder.saved, unwinder.top = list(zip(names, values)), top
            gdb.invalidate_cached_frames()
            found = list(frames_from(gdb.newest_frame()))
            own = [frame for frame in found if int(frame.read_register(names[1])) != top]
            yield [frame for frame in own if not (frame.name() or "").startswith(SWITCHING)] or own
        finally:
            unwinder.saved = None
            gdb.invalidate_cached_frames()


# --- In words ---------------------------------------------------------------------------------------------------------


def text(pointer):
    return pointer.string(errors="replace") if int(pointer) != 0 else "?"


def key_text(key):
    raw = bytes(int(key["bytes"][index]) & 255 for index in range(int(key["size"])))
    if int(key["kind"]) == 1:
        return str(int.from_bytes(raw, "little"))
    if int(key["kind"]) == 2:
        return f"{int.from_bytes(raw, 'little'):032x}"
    return '"' + "".join(chr(c) if 32 <= c < 127 and chr(c) not in '"\\' else f"\\x{c:02x}" for c in raw) + '"'


def left_text(deadline, now):
    if deadline is None:
        return ""
    if deadline == NEVER:
        return ", no deadline"
    left = (deadline - now) / 1e9
    return f", {left:.3f} s left" if left >= 0 else f", due {-left:.3f} s ago"


def place(frame):
    sal = frame.find_sal()
    where = f" at {sal.symtab.filename.rsplit('/', 1)[-1]}:{sal.line}" if sal.symtab is not None else ""
    return f"{frame.name() or hex(frame.pc())}{where}"


def is_a(value, name):
    """Whether a value is a structure of that name, or points to one."""
    if value is None:
        return False
    kind = value.type.strip_typedefs()
    kind = kind.target().strip_typedefs() if kind.code == gdb.TYPE_CODE_PTR else kind
    return kind.code == gdb.TYPE_CODE_STRUCT and kind.unqualified().tag == name


def call_text(frame):
    """The grain and method that a frame of an awaited call names, or None: in the library, or in the interface's stub."""
    to, method = variable(frame, "to"), variable(frame, "method")
    if not is_a(to, "teff_ref"):
        interface = to.type.target().name if to is not None and to.type.code == gdb.TYPE_CODE_PTR else None
        if not interface or not interface.endswith("_ref") or not (frame.name() or "").startswith(interface[:-3]):
            return None
        to, row = to["ref"], frame.name()[len(interface) - 3:]
    elif is_a(method, "teff_method"):
        row = text(method["name"])
    else:
        return None
    return f"{text(to['type']['text'])} {key_text(to['key'])}: {row}"


def turn_text(frame, turn):
    message, activation = variable(frame, "message"), turn["activation"]
    row = "completion" if "complete" in frame.name() else frame.name()  # of a hook: activate, deactivate
    if is_a(message, "teff__message"):
        row = text(message["of"]["methods"][int(message["method"])]["name"])
    return f"turn of {text(activation['type']['def']['name']['text'])} {key_text(activation['record']['key'])}: {row}"


def runs_text(frames):
    """(what a fiber runs, what it waits for or in, the user's frame)."""
    runs, target, inside, users = "something unknown", None, None, []
    for frame in frames:
        name = frame.name() or "?"
        try:
            turn, task = variable(frame, "turn"), variable(frame, "task")
            if is_a(turn, "teff__turn"):
                runs = turn_text(frame, turn)
                break
            if name == "task_run":
                symbol = re.search("<(.*)>", str(task["run"])) if is_a(task, "teff__task") else None
                runs = f"task {symbol.group(1) if symbol else users[-1].name() if users else '?'}"
                break
            if name == "run_as_task":
                runs = "completion of a task"
                break
            target = target or call_text(frame)
        except gdb.MemoryError:
            pass
        if re.match("teff_[^_]", name):
            inside, users = name, []  # what is newer is the library's
        elif not name.startswith("teff_"):
            users.append(frame)
    # The oldest is the handler or completion; behind it the macros have put a function that casts.
    if len(users) > 1 and re.search("_turn_|_thunk$", users[-1].name() or ""):
        users.pop()
    return runs, target or inside, users[-1] if users else None


# --- Commands ---------------------------------------------------------------------------------------------------------


class Teff(gdb.Command):
    """Silos of libteff: their workers, and the turns and tasks that wait.

  teff silos [EXPRESSION]        silos; remembers the one that EXPRESSION names
  teff workers [SILO]            workers
  teff turns [SILO | WORKER]     suspended turns and tasks, and what they wait for
  teff stack N [FRAME COMMAND]   the stack of one of them

A silo is called 1, as `teff silos` numbers them, and its worker 1.0. What runs at the
moment is no suspended turn: `backtrace` in its worker's thread shows it.

Works with a live process and with a core file that the kernel wrote (gdb's own
generate-core-file leaves the stacks out where Linux guards them by markers, 6.13 and
later). Nothing in the program is called or changed. Tested on x86-64; written for aarch64
as well. Silos on threads are found by themselves; a simulated one, or one on a loop of the
program's, once `teff silos EXPRESSION` has named it, or while its worker stands in a frame.
libteff must have its debug information (-g, not stripped); the program too, if the lines of
its handlers, and what an optimised build waits for, are to be seen."""

    def __init__(self):
        super().__init__("teff", gdb.COMMAND_STACK, gdb.COMPLETE_NONE, True)


class Command(gdb.Command):
    def __init__(self):
        super().__init__(f"teff {type(self).__name__.lower()}", gdb.COMMAND_STACK, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        try:
            self.run(argument.strip())
        except gdb.MemoryError as error:
            raise gdb.GdbError(NO_MEMORY.format(error)) from None


class Silos(Command):
    """Lists silos: state, workers, clients. `teff silos EXPRESSION` remembers the silo that it names, a teff_silo *."""

    def run(self, argument):
        ready()
        if argument:
            try:
                address = int(gdb.parse_and_eval(argument))
            except gdb.error as error:
                raise gdb.GdbError(f"{argument}: {error}. Go to a frame where it has a value, with `up` or `frame`") from None
            if not is_silo(address):
                raise gdb.GdbError(f"{argument} is no silo: a pointer to one is wanted, a teff_silo *")
            if address not in remembered:
                remembered.append(address)
        for number, silo in silos():
            options, exchange = silo["options"], silo["exchange"]
            how = "simulated" if options["simulated"] else "on a loop" if int(options["loop"]) else "on threads"
            print(f"silo {number}  {int(silo.address):#x}  {str(silo['state'])[5:].lower()}, {how}, "
                  f"{int(exchange['workers_count'])} workers, {int(exchange['clients_count'])} clients")


class Workers(Command):
    """Lists workers, of one silo or of all: thread, runnable items, activations, suspended turns and tasks, open calls."""

    def run(self, argument):
        threads = {int.from_bytes(thread.handle(), "little"): thread.num for thread in gdb.selected_inferior().threads()
                   if thread.is_valid()}
        print("worker  thread  state    runnable  activations  suspended  open calls")
        for name, _, catalog in catalogs(argument):
            worker = catalog["worker"]
            own = int(worker["thread"]["value"])
            state = "ended" if own == 0 else "running" if worker["running"] else \
                "parked" if int(worker["inbox"]["sleeping"]["value"]) else "awake"
            calls = sum(int(stripe["opened"]["value"]) - int(stripe["closed"]["value"]) for stripe in stripes(catalog))
            print(f"{name:6}  {threads.get(own, '-'):>6}  {state:7}  {sum(1 for _ in chain(worker['run_queue']['head'])):8}  "
                  f"{int(catalog['activations']['count']):11}  {int(catalog['suspended']):9}  {calls:10}")


class Turns(Command):
    """Lists suspended turns and tasks, of one silo or worker or of all; `teff stack N` shows one. The numbers hold
until the program goes on."""

    def run(self, argument):
        chosen = {name for name, _, _ in catalogs(argument)}
        found = numbered()
        for number, (name, silo, fiber, does, until) in found.items():
            if name in chosen:
                with frames_of(fiber) as frames:
                    runs, target, user = runs_text(frames)
                    does = "sleeps" if does == "sleeps" else f"{does} for {target}" if does == "waits" and target else does
                    print(f"{number:3}  {name}  {runs}; {does}{left_text(until, now_ns(silo))}"
                          + (f"; {place(user)}" if user is not None else ""))
        if not any(one[0] in chosen for one in found.values()):
            print("no turn or task is suspended")


class Stack(Command):
    """Shows the stack of turn or task N of `teff turns`, newest frame first.
`teff stack N FRAME COMMAND` runs a command of gdb in one of its frames: teff stack 1 2 info locals"""

    def run(self, argument):
        words = argument.split(None, 2)
        if len(words) not in (1, 3) or not all(word.isdigit() for word in words[:2]):
            raise gdb.GdbError("teff stack N, or teff stack N FRAME COMMAND, as in: teff stack 1 2 info locals")
        found = numbered()
        if int(words[0]) not in found:
            raise gdb.GdbError(f"there is no {words[0]}: `teff turns` lists {len(found)}")
        with frames_of(found[int(words[0])][2]) as frames:
            if len(words) == 3 and int(words[1]) >= len(frames):
                raise gdb.GdbError(f"there is no frame {words[1]}: the stack has {len(frames)}")
            for level, frame in enumerate(frames):
                if len(words) == 3 and level != int(words[1]):
                    continue
                frame.select()
                shown = gdb.execute(words[2] if len(words) == 3 else "frame", to_string=True)
                print(re.sub(r"^#\d+ +", f"#{level:<3}", shown).rstrip("\n"))


for command in (Teff, Silos, Workers, Turns, Stack):
    command()
