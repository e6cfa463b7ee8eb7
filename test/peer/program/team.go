package main

import (
	"fmt"
	"time"

	"github.com/kapetan-io/querator"
	pb "github.com/kapetan-io/querator/proto"
)

// member makes a user with a role in a namespace, and a client with a key of his.
func (p *program) member(name, role, namespace, scope string) (string, *querator.Client) {
	var user pb.UserCreateResponse
	err := p.c.UsersCreate(p.ctx, &pb.UserCreateRequest{Username: name, Email: name + "@example.test"}, &user)
	p.show("user "+name, &user, err)
	var binding pb.RoleBindingCreateResponse
	err = p.c.RoleBindingsCreate(p.ctx, &pb.RoleBindingCreateRequest{Namespace: namespace, RoleName: role, UserId: user.Id},
		&binding)
	p.show("binding to "+role, &binding, err)
	var key pb.APIKeyCreateResponse
	err = p.c.APIKeysCreate(p.ctx, &pb.APIKeyCreateRequest{UserId: user.Id, Name: name, NamespaceScope: scope}, &key)
	p.show("key", &key, err)
	return user.Id, connect(p.endpoint, key.Key)
}

// team: a namespace with a queue, a role and a key of its own; then the open door is shut.
func team(p *program) {
	space := &pb.NamespaceInfo{Name: "team", Description: "ours", ApiKeyTag: "tm"}
	p.tell("namespace", p.c.NamespacesCreate(p.ctx, space))
	p.tell("namespace again", p.c.NamespacesCreate(p.ctx, space))
	p.tell("reserved namespace", p.c.NamespacesCreate(p.ctx, &pb.NamespaceInfo{Name: "_mine"}))
	var spaces pb.NamespacesListResponse
	err := p.c.NamespacesList(p.ctx, &spaces, nil)
	p.show("namespaces", &spaces, err)
	info := queue("team-queue")
	info.Namespace = "team"
	p.tell("queue", p.c.QueuesCreate(p.ctx, info))
	var role pb.RoleCreateResponse
	err = p.c.RolesCreate(p.ctx, &pb.RoleCreateRequest{Namespace: "team", Name: "worker",
		Permissions: []string{"queue.produce", "queue.lease", "queue.complete"}}, &role)
	p.show("role", &role, err)
	err = p.c.RolesCreate(p.ctx, &pb.RoleCreateRequest{Namespace: "team", Name: "odd", Permissions: []string{"queue.*"}},
		&role)
	p.tell("role with a wildcard", err)
	var roles pb.RolesListResponse
	err = p.c.RolesList(p.ctx, "team", &roles, nil)
	p.show("roles", &roles, err)
	_, admin := p.member("root", "Admin", "_system", "_system")
	id, worker := p.member("worker", "worker", "team", "team")
	_, lost := p.member("lost", "PublicViewer", "_system", "team")
	p.tell("a name that is taken", p.c.UsersCreate(p.ctx, &pb.UserCreateRequest{Username: "root"}, &pb.UserCreateResponse{}))
	var keys pb.APIKeysListResponse
	err = p.c.APIKeysListByUser(p.ctx, id, &keys, nil)
	p.show("keys of worker", &keys, err)
	var bindings pb.RoleBindingsListResponse
	err = p.c.RoleBindingsList(p.ctx, "team", &bindings, nil)
	p.show("bindings", &bindings, err)

	p.tell("shut the door", p.c.RoleBindingsDelete(p.ctx, &pb.RoleBindingDeleteRequest{Namespace: "_system",
		RoleName: "Admin", UserId: "anonymous"}))
	for _, who := range []struct {
		name string
		c    *querator.Client
	}{{"anonymous", p.c}, {"a wrong key", connect(p.endpoint, "qtr-live-"+fmt.Sprintf("%043d", 0))},
		{"no key at all", connect(p.endpoint, "nonsense")}, {"worker", worker}, {"lost", lost}, {"root", admin}} {
		as := &program{ctx: p.ctx, endpoint: p.endpoint, c: who.c, section: p.section + " as " + who.name}
		as.tell("produce", as.produce("team-queue", items("%d", 1)...))
		got, err := as.lease("team-queue", 1, "100ms")
		as.say("lease: %s %s", words(got.Items), outcome(err))
		var stats pb.QueueStatsResponse
		as.tell("stats", as.c.QueueStats(as.ctx, &pb.QueueStatsRequest{QueueName: "team-queue"}, &stats))
		as.tell("produce elsewhere", as.produce("invoices", items("%d", 1)...))
		as.tell("namespaces", as.c.NamespacesList(as.ctx, &pb.NamespacesListResponse{}, nil))
	}
	p.c = admin
	p.tell("delete a role that is bound", p.c.RolesDelete(p.ctx, &pb.RolesDeleteRequest{Namespace: "team", Name: "worker"}))
	p.tell("delete a standard role", p.c.RolesDelete(p.ctx, &pb.RolesDeleteRequest{Namespace: "_system", Name: "Admin"}))
	p.tell("delete a full namespace", p.c.NamespacesDelete(p.ctx, &pb.NamespacesDeleteRequest{Name: "team"}))
	p.tell("delete the user", p.c.UsersDelete(p.ctx, &pb.UsersDeleteRequest{Id: id}))
	p.tell("delete him again", p.c.UsersDelete(p.ctx, &pb.UsersDeleteRequest{Id: id}))
	gone := &program{ctx: p.ctx, c: worker}
	p.tell("produce with the key of who is gone", gone.produce("team-queue", items("%d", 1)...))
}

// end: a lease that waits while the server is asked to end.
func end(p *program) {
	done := make(chan error)
	p.create(queue("last"))
	go func() {
		_, err := p.lease("last", 1, "30s")
		done <- err
	}()
	limit := time.Now().Add(5 * time.Second)
	for time.Now().Before(limit) {
		var stats pb.QueueStatsResponse
		err := p.c.QueueStats(p.ctx, &pb.QueueStatsRequest{QueueName: "last"}, &stats)
		if err != nil {
			p.tell("stats", err)
			break
		}
		if stats.LogicalQueues[0].LeaseWaiting > 0 {
			p.say("a lease waits")
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	fmt.Println("please end the server")
	p.tell("the lease that waited", <-done)
}
