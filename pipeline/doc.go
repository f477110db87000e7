package pipeline

// Notes for the next editor.
//
// Goroutines: the reader (reader.run) calls Next and Encode, the committer (committer.work)
// calls Write, Commit and Ack. Between them is one queue of chunks. The only locks are the queue's
// and the pool's, held for a few instructions. A Sink may release chunks from any goroutine.
//
// Never deadlocked: the reader waits for memory only while everything complete is in the queue,
// and holds back at most half the budget of a transaction that is not; so what fills the
// other half is with the committer or the Sink, and ends up released.
//
// Atomicity: only whole source transactions are queued, a huge one aside, whose parts go into a
// Kafka transaction of their own. So whatever ends the reader (an error that blocks, a lost
// connection, a stop), everything queued can be committed, and of a huge one the parts are aborted.
//
// Pace: after EndTxn the broker holds this producer's next produce for about 20 ms while it
// writes markers; a pause of 5 ms before writing again (Linger) brought the 99th percentile at
// 1,000 transactions a second from 46 ms to 11 ms. A quiet stream's transaction is never delayed. What arrives
// in the pause and during a commit makes the next group; from busyRecords records on, the group waits for more until a limit,
// because a Kafka transaction of 1,000 records gives 90,000 records/s and one of 50,000 gives 250,000.
// Of a backlog, whose changes are old anyway, a group waits longer for more: transactions of 1,000 rows come 3 ms apart from a server that
// streams as fast as it can, and further apart where processors are short.
//
// Lazy boundaries are kept in the queue outside its order: see queue.
