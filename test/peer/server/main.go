// Command server runs Querator in memory with everything its program's client can ask for: its shipped binary has no stores
// for namespaces, users, keys and roles. program.py puts it into a copy of Querator's source.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/kapetan-io/querator/daemon"
	"github.com/kapetan-io/querator/internal"
	"github.com/kapetan-io/querator/internal/store"
	"github.com/kapetan-io/querator/service"
)

func memory(log *slog.Logger) store.Config {
	conf := store.Config{
		Namespaces:   store.NewMemoryNamespaces(log),
		Queues:       store.NewMemoryQueues(log),
		Users:        store.NewMemoryUsers(log),
		APIKeys:      store.NewMemoryAPIKeys(log),
		Roles:        store.NewMemoryRoles(log),
		RoleBindings: store.NewMemoryRoleBindings(log),
	}
	conf.PartitionStorage = []store.PartitionStorage{
		{PartitionStore: store.NewMemoryPartitionStore(conf, log), Name: "memory", Affinity: 1},
	}
	return conf
}

func run(ctx context.Context) error {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	conf := memory(log)
	backend := internal.NewAuthBackend(internal.AuthBackendConfig{
		RoleBindings: conf.RoleBindings,
		APIKeys:      conf.APIKeys,
		Users:        conf.Users,
		Roles:        conf.Roles,
		Log:          log,
	})
	d, err := daemon.NewDaemon(ctx, daemon.Config{
		Service:       service.Config{StorageConfig: conf, Auth: backend, Log: log},
		AuthBackend:   backend,
		ListenAddress: "127.0.0.1:0",
	})
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s\n", d.Listener.Addr())
	<-ctx.Done()
	return d.Shutdown(context.Background())
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
