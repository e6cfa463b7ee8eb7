// Package daemon stands in for Querator's own while its tests run against our server: peer.py puts this file in the place
// of daemon.go in a copy of its source. A daemon is a process; a store that a test made is a folder that lasts as long as
// the test process; a test's clock is the server's, through the test hooks.
package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kapetan-io/querator"
	"github.com/kapetan-io/querator/service"
	"github.com/kapetan-io/querator/transport/auth"
	"github.com/kapetan-io/tackle/clock"
)

const readyTimeout = 20 * time.Second

var (
	mutex   sync.Mutex
	folders = map[any]string{}              // of each store that tests made
	clocked = map[*clock.Provider]*Daemon{} // who follows which clock
)

type listener struct{ address net.Addr }

func (l listener) Accept() (net.Conn, error) { return nil, io.EOF }
func (l listener) Close() error              { return nil }
func (l listener) Addr() net.Addr            { return l.address }

type Daemon struct {
	Listener net.Listener
	service  *service.Service
	client   *querator.Client
	process  *exec.Cmd
	stderr   *os.File
	url      string
	ended    chan error
	once     sync.Once
}

func init() {
	clock.OnAdvance = func(p *clock.Provider, d time.Duration) {
		mutex.Lock()
		of := clocked[p]
		mutex.Unlock()
		if of != nil {
			if err := of.hook("test.clock", map[string]any{"advance": fmt.Sprintf("%dms", d.Milliseconds())}); err != nil {
				panic(err)
			}
		}
	}
}

func folder(conf service.Config) string {
	mutex.Lock()
	defer mutex.Unlock()
	key := any(conf.StorageConfig.Queues)
	if key != nil && folders[key] != "" {
		return folders[key]
	}
	made, err := os.MkdirTemp(os.Getenv("PEER_DATA"), "data-")
	if err != nil {
		panic(err)
	}
	if key != nil {
		folders[key] = made
	}
	return made
}

func arguments(conf Config) []string {
	args := []string{"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(folder(conf.Service), "store")}
	if _, open := conf.AuthBackend.(*auth.NoOpAuthBackend); conf.AuthBackend != nil && !open {
		args = append(args, "--set", "auth=internal")
	}
	var stores []string
	for _, s := range conf.Service.StorageConfig.PartitionStorage {
		stores = append(stores, fmt.Sprintf("%s*%d=q-%s", s.Name, int(max(s.Affinity, 1)), s.Name))
	}
	if len(stores) > 1 {
		args = append(args, "--set", "queue.stores="+strings.Join(stores, ","))
	}
	if c := conf.Service.Clock; c != nil && c.Frozen() {
		return append(args, "--test-hooks="+c.Now().UTC().Format(time.RFC3339Nano))
	}
	return append(args, "--test-hooks")
}

func NewDaemon(ctx context.Context, conf Config) (*Daemon, error) {
	d := &Daemon{service: &service.Service{}, ended: make(chan error, 1)}
	d.process = exec.Command(os.Getenv("PEER_BINARY"), arguments(conf)...)
	stdout, err := d.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if d.stderr, err = os.CreateTemp(os.Getenv("PEER_DATA"), "stderr-"); err != nil {
		return nil, err
	}
	d.process.Stderr = d.stderr
	if err = d.process.Start(); err != nil {
		return nil, err
	}
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		lines <- line
		_, _ = io.Copy(io.Discard, stdout)
		d.ended <- d.process.Wait()
	}()
	select {
	case line := <-lines:
		url, found := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
		if !found {
			return nil, fmt.Errorf("no address but %q; see %s", line, d.stderr.Name())
		}
		d.url = url
	case <-time.After(readyTimeout):
		return nil, errors.New("not ready in time")
	}
	if d.Listener, err = d.listen(); err != nil {
		return nil, err
	}
	mutex.Lock()
	if conf.Service.Clock != nil {
		clocked[conf.Service.Clock] = d
	}
	mutex.Unlock()
	service.Remote.Store(d.service, d)
	return d, nil
}

func (d *Daemon) listen() (net.Listener, error) {
	address, err := net.ResolveTCPAddr("tcp", strings.TrimPrefix(d.url, "http://"))
	return listener{address}, err
}

// Shutdown asks the server to end and takes anything but exit 0 for a failure.
func (d *Daemon) Shutdown(ctx context.Context) error {
	var err error
	d.once.Do(func() {
		http.DefaultClient.CloseIdleConnections()
		if err = d.process.Process.Signal(syscall.SIGTERM); err != nil {
			return
		}
		select {
		case err = <-d.ended:
		case <-time.After(30 * time.Second):
			_ = d.process.Process.Kill()
			err = errors.New("the server did not end")
		}
		_ = d.stderr.Close()
	})
	return err
}

func (d *Daemon) Service() *service.Service { return d.service }

func (d *Daemon) Client() (*querator.Client, error) {
	var err error
	if d.client == nil {
		d.client, err = querator.NewClient(querator.ClientConfig{Endpoint: d.url})
	}
	return d.client, err
}

func (d *Daemon) MustClient() *querator.Client {
	c, err := d.Client()
	if err != nil {
		panic(err)
	}
	return c
}

// PauseQueue is what the patched service.Service of this daemon calls.
func (d *Daemon) PauseQueue(name string, pause bool) error {
	return d.hook("test.pause", map[string]any{"queue_name": name, "pause": pause})
}

func (d *Daemon) hook(name string, body map[string]any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	got, err := http.Post(d.url+"/v1/"+name, "application/json", bytes.NewReader(raw))
	if err != nil {
		return err
	}
	defer func() { _ = got.Body.Close() }()
	text, _ := io.ReadAll(got.Body)
	if got.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %d %s", name, raw, got.StatusCode, text)
	}
	return nil
}
