// SPDX-License-Identifier: Apache-2.0

package archive

// This file answers: how is a file of unknown size written into a bucket, while at most one part of it is in memory?

import (
	"bytes"
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const (
	// partSize is the size in bytes of a part, of which one is in memory. S3 takes 5 MiB or more of each but the last, and up to 10,000 parts.
	partSize = 8 << 20
	// abortLimit bounds the time for removing the parts of a file that could not be written.
	abortLimit = 10 * time.Second
)

// contentType is that of all files.
var contentType = aws.String("application/gzip")

// upload writes a file: as one request, or in parts, which are sent while it is written, if it has more than partSize.
type upload struct {
	ctx    context.Context // of io.Writer's calls
	bucket *Bucket
	key    *string

	part []byte // not yet sent
	id   *string
	sent []types.CompletedPart
	err  error // the first
}

func (u *upload) Write(content []byte) (n int, err error) {
	for n < len(content) && u.err == nil {
		room := min(partSize-len(u.part), len(content)-n)
		u.part = append(u.part, content[n:n+room]...)
		n += room
		if len(u.part) == partSize {
			u.err = u.send()
		}
	}
	return n, u.err
}

// send sends a part.
func (u *upload) send() error {
	b, number := u.bucket, int32(len(u.sent)+1)
	if u.id == nil {
		started, err := b.client.CreateMultipartUpload(u.ctx, &s3.CreateMultipartUploadInput{Bucket: &b.name, Key: u.key, ContentType: contentType})
		if err != nil {
			return b.failed(writes, *u.key, err)
		}
		u.id = started.UploadId
	}
	sent, err := b.client.UploadPart(u.ctx, &s3.UploadPartInput{Bucket: &b.name, Key: u.key, UploadId: u.id, PartNumber: &number, Body: bytes.NewReader(u.part)})
	if err != nil {
		return b.failed(writes, *u.key, err)
	}
	u.sent, u.part = append(u.sent, types.CompletedPart{ETag: sent.ETag, PartNumber: &number}), u.part[:0]
	return nil
}

// close sends what is left. Readers find the file from then on.
func (u *upload) close() error {
	b := u.bucket
	if u.id == nil {
		_, err := b.client.PutObject(u.ctx, &s3.PutObjectInput{Bucket: &b.name, Key: u.key, Body: bytes.NewReader(u.part), ContentType: contentType})
		return b.failed(writes, *u.key, err)
	}
	if len(u.part) > 0 {
		if err := u.send(); err != nil {
			return err
		}
	}
	_, err := b.client.CompleteMultipartUpload(u.ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &b.name, Key: u.key, UploadId: u.id, MultipartUpload: &types.CompletedMultipartUpload{Parts: u.sent},
	})
	return b.failed(writes, *u.key, err)
}

// abort removes the parts that were sent. It also does when the time for writing is over.
func (u *upload) abort() {
	if u.id == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), abortLimit)
	defer cancel()
	b := u.bucket
	_, _ = b.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &b.name, Key: u.key, UploadId: u.id}) // the error before says more
}
