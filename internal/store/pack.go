package store

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// packFrom is the size from which data is compressed. Packed data begins with zstd's magic number, which no JSON does.
const packFrom = 1 << 10

// maxUnpacked bounds what a row may become, so that a damaged one cannot take all memory.
const maxUnpacked = 1 << 30

// codec packs and unpacks what rows hold, from any number of goroutines.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newCodec() (codec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(readers), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return codec{}, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(readers), zstd.WithDecoderMaxMemory(maxUnpacked))
	return codec{enc, dec}, err
}

func (c codec) close() {
	if c.dec != nil {
		c.dec.Close()
	}
}

func (c codec) pack(data []byte) []byte {
	if len(data) < packFrom {
		return data
	}
	return c.enc.EncodeAll(data, make([]byte, 0, len(data)/4))
}

func (c codec) unpack(data []byte) ([]byte, error) {
	if len(data) < 4 || string(data[:4]) != "\x28\xb5\x2f\xfd" {
		return data, nil
	}
	out, err := c.dec.DecodeAll(data, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack a row: %w", err)
	}
	return out, nil
}
