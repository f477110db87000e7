package signal

// The names of the channels, as signal.enabled.channels takes them.
const (
	ChannelKafka  = "kafka"
	ChannelFile   = "file"
	ChannelSource = "source"
)

// FromRow makes a signal of a row of the signal table and checks it.
func FromRow(id, typ, data string) (Signal, error) {
	_, err := Parse(id, typ, []byte(data))
	return Signal{ID: id, Type: typ, Data: []byte(data), Channel: ChannelSource}, err
}
