// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: which links were prepared for which pod? The driver and the CNI plugin, which is a process of its own, share it.

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/types"
)

// preparedLink is a link that belongs to a claim.
type preparedLink struct {
	Name      string    `json:"name"`
	MAC       string    `json:"mac,omitempty"`
	Request   string    `json:"request"`
	Namespace string    `json:"namespace"`
	Claim     string    `json:"claim"`
	ClaimUID  types.UID `json:"claimUID"`
	// Attached links are in their pod.
	Attached bool `json:"attached"`
	// Reported links are in the status of their claim.
	Reported bool `json:"reported"`
}

// prepared are the links by pod, a file of a folder for each.
type prepared struct{ dir string }

// change reads all links, by the UID of their pod, and writes what a function makes of them, if that has no error. Others wait.
func (p prepared) change(edit func(pods map[types.UID][]preparedLink) error) error {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(p.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	pods, err := p.read()
	if err != nil {
		return err
	}
	before := make([]types.UID, 0, len(pods))
	for pod := range pods {
		before = append(before, pod)
	}
	if err := edit(pods); err != nil {
		return err
	}
	for _, pod := range before {
		if len(pods[pod]) == 0 {
			err = errors.Join(err, os.Remove(p.file(pod)))
		}
	}
	for pod, links := range pods {
		if len(links) > 0 {
			err = errors.Join(err, p.write(pod, links))
		}
	}
	return err
}

func (p prepared) file(pod types.UID) string { return filepath.Join(p.dir, string(pod)+".json") }

func (p prepared) read() (map[types.UID][]preparedLink, error) {
	pods := map[types.UID][]preparedLink{}
	files, err := filepath.Glob(filepath.Join(p.dir, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var links []preparedLink
		if err := errors.Join(err, json.Unmarshal(text, &links)); err != nil {
			return nil, err
		}
		pods[types.UID(strings.TrimSuffix(filepath.Base(file), ".json"))] = links
	}
	return pods, nil
}

func (p prepared) write(pod types.UID, links []preparedLink) error {
	text, err := json.Marshal(links)
	if err != nil {
		return err
	}
	next := p.file(pod) + ".next"
	return errors.Join(os.WriteFile(next, text, 0o600), os.Rename(next, p.file(pod)))
}
