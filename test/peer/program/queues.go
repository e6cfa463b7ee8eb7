package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/kapetan-io/querator"
	pb "github.com/kapetan-io/querator/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// queues: made, listed by pages, looked at, deleted.
func queues(p *program) {
	for _, name := range []string{"dead-orders", "invoices", "orders", "reports"} {
		info := queue(name)
		info.Reference = "made by program"
		if name == "orders" {
			info.DeadQueue, info.MaxAttempts, info.RequestedPartitions = "dead-orders", 3, 2
		}
		p.tell("create "+name, p.c.QueuesCreate(p.ctx, info))
	}
	pivot := ""
	for range 3 {
		var got pb.QueuesListResponse
		err := p.c.QueuesList(p.ctx, &got, &querator.ListOptions{Limit: 2, Pivot: pivot})
		p.show("a page from '"+pivot+"'", &got, err)
		if len(got.Items) == 0 {
			break
		}
		pivot = got.Items[len(got.Items)-1].QueueName
	}
	var past pb.QueuesListResponse
	err := p.c.QueuesList(p.ctx, &past, &querator.ListOptions{Pivot: "zzz"})
	p.show("past the end", &past, err)
	var info pb.QueueInfo
	err = p.c.QueuesInfo(p.ctx, &pb.QueuesInfoRequest{QueueName: "orders"}, &info)
	p.show("info", &info, err)
	p.say("made a moment ago: %v", time.Since(info.CreatedAt.AsTime()).Abs() < time.Minute)
	p.tell("delete", p.c.QueuesDelete(p.ctx, &pb.QueuesDeleteRequest{QueueName: "reports"}))
	p.tell("produce to what was deleted", p.produce("reports", items("%d", 1)...))
	err = p.c.QueuesInfo(p.ctx, &pb.QueuesInfoRequest{QueueName: "reports"}, &info)
	p.tell("info of what was deleted", err)
}

// mistakes that programs make, and what they are told.
func mistakes(p *program) {
	p.create(queue("m"))
	long := strings.Repeat("x", 2001)
	made := func(change func(*pb.QueueInfo)) error {
		info := queue("another")
		change(info)
		return p.c.QueuesCreate(p.ctx, info)
	}
	p.tell("create again", p.c.QueuesCreate(p.ctx, queue("m")))
	p.tell("no name", made(func(q *pb.QueueInfo) { q.QueueName = "" }))
	p.tell("a blank", made(func(q *pb.QueueInfo) { q.QueueName = "a b" }))
	p.tell("a tilde", made(func(q *pb.QueueInfo) { q.QueueName = "a~b" }))
	p.tell("long name", made(func(q *pb.QueueInfo) { q.QueueName = long[:513] }))
	p.tell("no such dead queue", made(func(q *pb.QueueInfo) { q.DeadQueue = "nowhere" }))
	p.tell("dead queue is itself", made(func(q *pb.QueueInfo) { q.DeadQueue = "another" }))
	p.tell("dead queue has one", made(func(q *pb.QueueInfo) { q.DeadQueue = "orders" }))
	p.tell("no lease timeout", made(func(q *pb.QueueInfo) { q.LeaseTimeout = "" }))
	p.tell("no expire timeout", made(func(q *pb.QueueInfo) { q.ExpireTimeout = "" }))
	p.tell("not a duration", made(func(q *pb.QueueInfo) { q.LeaseTimeout = "soon" }))
	p.tell("lease after expire", made(func(q *pb.QueueInfo) { q.LeaseTimeout = "48h" }))
	p.tell("long reference", made(func(q *pb.QueueInfo) { q.Reference = long }))
	p.tell("attempts below zero", made(func(q *pb.QueueInfo) { q.MaxAttempts = -1 }))
	p.tell("no partitions", made(func(q *pb.QueueInfo) { q.RequestedPartitions = 0 }))

	timeout := func(text string) error {
		return p.c.QueueProduce(p.ctx, &pb.QueueProduceRequest{QueueName: "m", RequestTimeout: text, Items: items("%d", 1)})
	}
	p.tell("no timeout", timeout(""))
	p.tell("short timeout", timeout("1ms"))
	p.tell("long timeout", timeout("16m"))
	p.tell("odd timeout", timeout("foo"))
	p.tell("no items", p.produce("m"))
	p.tell("many items", p.produce("m", items("%d", 1001)...))
	p.tell("no such queue", p.produce("nowhere", items("%d", 1)...))

	ask := func(count int32, client, text string) error {
		var got pb.QueueLeaseResponse
		return p.c.QueueLease(p.ctx, &pb.QueueLeaseRequest{QueueName: "m", BatchSize: count, ClientId: client,
			RequestTimeout: text}, &got)
	}
	p.tell("lease none", ask(0, "c", "1s"))
	p.tell("lease many", ask(1001, "c", "1s"))
	p.tell("lease without client", ask(1, "", "1s"))
	p.tell("lease without timeout", ask(1, "c", ""))
	p.tell("lease with a long timeout", ask(1, "c", "16m"))
	p.tell("lease where nothing is", ask(1, "c", "100ms"))

	p.tell("complete nothing", p.complete("m", 0))
	p.tell("complete in no partition", p.complete("m", 7, "2ZqP8YcZkq0aQ3vJ0Q9aP0yB0aB"))
	p.tell("complete what is no id", p.complete("m", 0, "nonsense"))
	p.tell("complete what is not there", p.complete("m", 0, "2ZqP8YcZkq0aQ3vJ0Q9aP0yB0aB"))
	p.tell("retry nothing", p.retry("m", 0))
	p.tell("retry what is not there", p.retry("m", 0, &pb.QueueRetryItem{Id: "2ZqP8YcZkq0aQ3vJ0Q9aP0yB0aB"}))
	p.put("m", "a")
	lying := p.stored("m", 0)
	p.tell("complete what is not leased", p.complete("m", 0, lying[0].Id))
	p.tell("retry what is not leased", p.retry("m", 0, &pb.QueueRetryItem{Id: lying[0].Id}))
	p.tell("clear nothing", p.c.QueueClear(p.ctx, &pb.QueueClearRequest{QueueName: "m"}))
	var list pb.QueuesListResponse
	p.tell("a limit below zero", p.c.QueuesList(p.ctx, &list, &querator.ListOptions{Limit: -1}))
	p.tell("a large limit", p.c.QueuesList(p.ctx, &list, &querator.ListOptions{Limit: 70000}))
	p.tell("a wrong pivot", p.c.QueuesList(p.ctx, &list, &querator.ListOptions{Pivot: "a~b"}))

	got, err := p.lease("m", 1, "1s")
	p.say("the one item: %s %s", words(got.Items), outcome(err))
	twins := make([]error, 2)
	together(2, func(i int) { twins[i] = ask(1, "twin", "1s") })
	if code(twins[0]) > code(twins[1]) { // either of the two was there first
		twins[0], twins[1] = twins[1], twins[0]
	}
	p.tell("the second lease of a client", twins[0])
	p.tell("the first", twins[1])
}

// expiry: an item that nobody completes comes back, and in the end goes to the dead queue.
func expiry(p *program) {
	p.create(queue("lost-dead"))
	info := queue("lost")
	info.LeaseTimeout, info.DeadQueue, info.MaxAttempts = "500ms", "lost-dead", 2
	p.create(info)
	tell := p.produce("lost", &pb.QueueProduceItem{Bytes: []byte{0, 1, 255}, Kind: "k", Encoding: "e", Reference: "r"})
	p.tell("produce", tell)
	var ids []string
	for range 2 {
		got, err := p.leaseWithin("lost", 1, 10*time.Second)
		if err != nil {
			p.tell("lease", err)
			return
		}
		p.show("leased", got, nil)
		ids = append(ids, got.Items[0].Id)
	}
	p.say("a new id: %v, later than the old one: %v", ids[0] != ids[1], ids[1] > ids[0])
	p.tell("complete by the old id", p.complete("lost", 0, ids[0]))
	got, err := p.leaseWithin("lost-dead", 1, 10*time.Second)
	p.show("from the dead queue", got, err)
	if err == nil {
		p.tell("complete it there", p.complete("lost-dead", 0, got.Items[0].Id))
	}
	p.say("left: %d and %d", len(p.stored("lost", 0)), len(p.stored("lost-dead", 0)))
}

// schedule: an item for later is hidden until then.
func schedule(p *program) {
	p.create(queue("later"))
	at := time.Now().Add(time.Second)
	later := items("for later %d", 2)
	for _, item := range later {
		item.EnqueueAt = timestamppb.New(at)
	}
	p.tell("produce", p.produce("later", later...))
	var got pb.StorageItemsListResponse
	err := p.c.StorageScheduledList(p.ctx, "later", 0, &got, nil)
	p.say("scheduled: %s %s", payloads(got.Items), outcome(err))
	p.say("stored: %s", payloads(p.stored("later", 0)))
	_, err = p.lease("later", 2, "100ms")
	p.tell("lease too early", err)
	leased, err := p.leaseWithin("later", 2, 10*time.Second)
	p.say("leased: %s %s, not before its time: %v", words(leased.Items), outcome(err), !time.Now().Before(at))
	if err != nil {
		return
	}
	p.tell("give one back for later", p.retry("later", 0, &pb.QueueRetryItem{Id: leased.Items[0].Id,
		RetryAt: timestamppb.New(time.Now().Add(time.Second))}))
	p.tell("complete the other", p.complete("later", 0, leased.Items[1].Id))
	leased, err = p.leaseWithin("later", 2, 10*time.Second)
	p.say("leased: %s %s", words(leased.Items), outcome(err))
}

// paging: the items of a partition by pages, each beginning with the last of the page before.
func paging(p *program) {
	p.create(queue("pages"))
	p.tell("produce", p.produce("pages", items("%02d", 25)...))
	pivot := ""
	for page := 0; page < 5; page++ {
		var got pb.StorageItemsListResponse
		if err := p.c.StorageItemsList(p.ctx, "pages", 0, &got, &querator.ListOptions{Limit: 10, Pivot: pivot}); err != nil {
			p.tell("page", err)
			return
		}
		p.say("page %d: %s, begins with the pivot: %v", page, payloads(got.Items), pivot == "" || got.Items[0].Id == pivot)
		last := got.Items[len(got.Items)-1].Id
		if last == pivot {
			break
		}
		pivot = last
	}
	var one pb.StorageItemsListResponse
	err := p.c.StorageItemsList(p.ctx, "pages", 0, &one, &querator.ListOptions{Limit: 1})
	p.show("one item", &one, err)
	leased, err := p.lease("pages", 1, "1s")
	p.say("leased: %s %s", words(leased.Items), outcome(err))
	err = p.c.StorageItemsList(p.ctx, "pages", 0, &one, &querator.ListOptions{Limit: 1})
	p.show("the same, leased", &one, err)
	p.tell("a wrong partition", p.c.StorageItemsList(p.ctx, "pages", 5, &one, nil))
	p.tell("a wrong pivot", p.c.StorageItemsList(p.ctx, "pages", 0, &one, &querator.ListOptions{Pivot: "invalid-id"}))
	p.tell("complete", p.complete("pages", 0, querator.CollectIDs(leased.Items)...))
}

// imports: items put in and taken out by an administrator's program.
func imports(p *program) {
	p.create(queue("moved"))
	var got pb.StorageItemsImportResponse
	var wanted []*pb.StorageItem
	for i := range 3 {
		wanted = append(wanted, &pb.StorageItem{Payload: fmt.Appendf(nil, "old %d", i), Kind: "k", Encoding: "e",
			Reference: "r", Attempts: int32(i), MaxAttempts: 5,
			ExpireDeadline: timestamppb.New(time.Now().Add(time.Hour))})
	}
	err := p.c.StorageItemsImport(p.ctx, &pb.StorageItemsImportRequest{QueueName: "moved", Items: wanted}, &got)
	deadlines := map[string]bool{}
	for _, item := range got.Items {
		deadlines[item.LeaseDeadline.AsTime().Format(time.RFC3339)] = true
		item.LeaseDeadline = nil
	}
	for deadline := range deadlines {
		p.say("lease deadlines: %s", deadline)
	}
	p.show("import", &got, err)
	p.say("stored: %s", payloads(p.stored("moved", 0)))
	if err != nil || len(got.Items) != 3 {
		return
	}
	p.tell("delete one", p.c.StorageItemsDelete(p.ctx, &pb.StorageItemsDeleteRequest{QueueName: "moved",
		Ids: []string{got.Items[1].Id}}))
	p.say("stored: %s", payloads(p.stored("moved", 0)))
	p.tell("import nothing", p.c.StorageItemsImport(p.ctx, &pb.StorageItemsImportRequest{QueueName: "moved"}, &got))
	p.tell("delete nothing", p.c.StorageItemsDelete(p.ctx, &pb.StorageItemsDeleteRequest{QueueName: "moved"}))
	p.tell("delete what is no id", p.c.StorageItemsDelete(p.ctx, &pb.StorageItemsDeleteRequest{QueueName: "moved",
		Ids: []string{"invalid-id"}}))
	leased, err := p.lease("moved", 5, "1s")
	p.say("leased: %s %s", words(leased.Items), outcome(err))
}

// clearing takes what is not leased, or what is scheduled, or all.
func clearing(p *program) {
	p.create(queue("full"))
	p.put("full", "a", "b", "c")
	later := items("later", 1)
	later[0].EnqueueAt = timestamppb.New(time.Now().Add(time.Hour))
	p.tell("produce", p.produce("full", later...))
	leased, err := p.lease("full", 1, "1s")
	p.say("leased: %s %s", words(leased.Items), outcome(err))
	show := func() {
		var got pb.StorageItemsListResponse
		err := p.c.StorageScheduledList(p.ctx, "full", 0, &got, nil)
		p.say("stored %s, scheduled %d %s", payloads(p.stored("full", 0)), len(got.Items), outcome(err))
	}
	show()
	p.tell("clear the queue", p.c.QueueClear(p.ctx, &pb.QueueClearRequest{QueueName: "full", Queue: true}))
	show()
	p.tell("complete", p.complete("full", 0, leased.Items[0].Id))
	p.tell("clear what is scheduled", p.c.QueueClear(p.ctx, &pb.QueueClearRequest{QueueName: "full", Scheduled: true}))
	show()
	p.put("full", "d")
	leased, err = p.lease("full", 1, "1s")
	p.say("leased: %s %s", words(leased.Items), outcome(err))
	p.tell("clear even what is leased", p.c.QueueClear(p.ctx, &pb.QueueClearRequest{QueueName: "full", Queue: true,
		Destructive: true}))
	show()
	p.tell("reload", p.c.QueueReload(p.ctx, &pb.QueueReloadRequest{QueueName: "full"}))
}
