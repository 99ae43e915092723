package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// Process is a child process of a Lab, with a log file of all it prints, and
// with a restart that keeps its arguments. It is safe for concurrent use.
type Process struct {
	lab  *Lab
	name string
	path string
	args []string
	env  []string
	log  string
	ns   *Namespace

	mu  sync.Mutex
	run *run // the newest
}

// run is one life of a process.
type run struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// running says whether the run has not ended yet.
func (r *run) running() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// start runs a program as a child of the lab. env is laid over the lab's own.
func (l *Lab) start(name, path string, args, env []string) (*Process, error) {
	return l.startIn(nil, name, path, args, env)
}

// startIn is start, in a network namespace.
func (l *Lab) startIn(ns *Namespace, name, path string, args, env []string) (*Process, error) {
	p := &Process{lab: l, name: name, path: path, args: args, env: env, log: l.Path(name + ".log"), ns: ns}
	if err := p.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

// Start starts the process once more after it has ended. It is the same
// process to the lab, which kills it when it is closed.
func (p *Process) Start() error {
	p.lab.mu.Lock()
	defer p.lab.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lab.closed {
		return fmt.Errorf("starting %s: the lab is closed", p.name)
	}
	if p.run != nil && p.run.running() {
		return fmt.Errorf("starting %s: it is running", p.name)
	}
	if err := p.startRun(); err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	if !slices.Contains(p.lab.procs, p) {
		p.lab.procs = append(p.lab.procs, p)
	}
	return nil
}

func (p *Process) startRun() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(p.path, p.args...)
	cmd.Dir = p.lab.dir
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	r := &run{cmd: cmd, done: make(chan struct{})}
	if err := startTied(p.ns, cmd, func(error) { close(r.done) }); err != nil {
		return err
	}
	p.run = r
	return nil
}

// startTied starts a command in a network namespace, which the kernel kills when
// this process dies, however it dies, and calls ended with the result of its Wait.
//
// The kernel's parent death signal is sent at the end of the thread, not of the
// process, that started the child: so one goroutine, locked to its thread,
// starts the child and stays until it has ended. It never unlocks the thread,
// which may have left the lab's own network, and so ends with it.
func startTied(ns *Namespace, cmd *exec.Cmd, ended func(error)) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := ns.enter()
		if err == nil {
			err = cmd.Start()
		}
		started <- err
		if err == nil {
			ended(cmd.Wait())
		}
	}()
	return <-started
}

// runTied runs a command to its end, or kills its process group when ctx ends.
func runTied(ctx context.Context, cmd *exec.Cmd) error {
	var result error // valid once done is closed
	done := make(chan struct{})
	err := startTied(nil, cmd, func(err error) {
		result = err
		close(done)
	})
	if err != nil {
		return err
	}
	select {
	case <-done:
		return result
	case <-ctx.Done():
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-done
		return ctx.Err()
	}
}

// output runs a program to its end and returns what it printed on both outputs
// and its exit code.
func output(ctx context.Context, path string, args ...string) (string, int, error) {
	return outputOf(ctx, exec.Command(path, args...))
}

// outputOf is output, of a command that may have more than arguments.
func outputOf(ctx context.Context, cmd *exec.Cmd) (string, int, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var exit *exec.ExitError
	if err := runTied(ctx, cmd); err != nil && !errors.As(err, &exit) {
		return out.String(), 0, fmt.Errorf("running %s %q: %w", filepath.Base(cmd.Path), cmd.Args[1:], err)
	}
	return out.String(), cmd.ProcessState.ExitCode(), nil
}

// filter runs a program to its end, with in as its stdin and env laid over the
// lab's own, and returns what it printed on stdout. What it printed on stderr
// is part of the error.
func filter(ctx context.Context, in []byte, env []string, path string, args ...string) ([]byte, error) {
	cmd := exec.Command(path, args...)
	var out, problem bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &problem
	cmd.Env = append(os.Environ(), env...)
	if err := runTied(ctx, cmd); err != nil {
		return nil, fmt.Errorf("running %s %q: %w\n%s", filepath.Base(path), args, err, problem.Bytes())
	}
	return out.Bytes(), nil
}

// newest is the newest run.
func (p *Process) newest() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

// Replace puts another program in the place of this one, as an upgrade does, for
// Start and Twin. The process that runs goes on as it is.
func (p *Process) Replace(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.path = path
}

// program is the path of what Start and Twin run.
func (p *Process) program() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.path
}

// Name is the name of the process, unique in its lab.
func (p *Process) Name() string { return p.name }

// Pid is the process id of the newest run.
func (p *Process) Pid() int { return p.newest().cmd.Process.Pid }

// CPUTime is the user and system time that all threads of the newest run have
// spent so far, in steps of 10 ms.
func (p *Process) CPUTime() (time.Duration, error) {
	proc, err := procfs.NewProc(p.Pid())
	if err != nil {
		return 0, fmt.Errorf("looking at %s: %w", p.name, err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return 0, fmt.Errorf("looking at %s: %w", p.name, err)
	}
	return time.Duration(stat.CPUTime() * float64(time.Second)), nil
}

// Resident is how many bytes of memory the newest run has.
func (p *Process) Resident() (int, error) {
	proc, err := procfs.NewProc(p.Pid())
	if err != nil {
		return 0, fmt.Errorf("looking at %s: %w", p.name, err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return 0, fmt.Errorf("looking at %s: %w", p.name, err)
	}
	return stat.ResidentMemory(), nil
}

// Done is closed at the end of the newest run.
func (p *Process) Done() <-chan struct{} { return p.newest().done }

// Wait waits for the end of the newest run and returns its exit code, which is
// -1 when a signal ended it.
func (p *Process) Wait(ctx context.Context) (int, error) {
	r := p.newest()
	select {
	case <-r.done:
		return r.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("waiting for the end of %s: %w", p.name, ctx.Err())
	}
}

// Signal sends a signal, as SIGHUP, SIGSTOP or SIGCONT.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.newest().cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signalling %s: %w", p.name, err)
	}
	return nil
}

// Kill ends the process at once, as kill -9 does, and waits for its end. It is
// no error if it has ended before.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.Done()
	return nil
}

// Stop ends the process politely, with SIGTERM, and waits until it has ended or
// ctx has; its exit code is returned as by Wait.
func (p *Process) Stop(ctx context.Context) (int, error) {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, err
	}
	return p.Wait(ctx)
}

// Twin runs the program once more, by the same arguments and beside this one, to
// its end, or until ctx ends; it returns what it printed on both outputs and its
// exit code. It is for what lets nobody run twice.
func (p *Process) Twin(ctx context.Context) (string, int, error) {
	cmd := exec.Command(p.program(), p.args...)
	cmd.Dir = p.lab.dir
	cmd.Env = append(os.Environ(), p.env...)
	return outputOf(ctx, cmd)
}

// Log is all that the process has printed so far, in all its runs.
func (p *Process) Log() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// LogTail is the last n lines of the log.
func (p *Process) LogTail(n int) string {
	lines := strings.Split(strings.TrimRight(p.Log(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// until waits until ready succeeds, and fails early, with the end of the log,
// when the process ends first.
func (p *Process) until(ctx context.Context, timeout time.Duration, ready func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	r := p.newest()
	go func() {
		select {
		case <-r.done:
			cancel(fmt.Errorf("%s has ended: %s", p.name, r.cmd.ProcessState))
		case <-stop:
		}
	}()
	if err := Eventually(ctx, timeout, ready); err != nil {
		return fmt.Errorf("waiting for %s: %w; the end of its log:\n%s", p.name, err, p.LogTail(15))
	}
	return nil
}

// restart ends the process with sig and starts it again.
func (p *Process) restart(ctx context.Context, sig syscall.Signal) error {
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if _, err := p.Wait(ctx); err != nil {
		return err
	}
	return p.Start()
}

// WriteProgram writes a program that can be started at once: no child of this
// process has a copy of the open file, with which it would be "text file busy"
// (golang.org/issue/22315).
func WriteProgram(path string, text []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, text, 0o755)
}
