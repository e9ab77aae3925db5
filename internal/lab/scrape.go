package lab

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Samples are a gate's metrics at one moment: series to value.
type Samples map[string]float64

// Scrape reads the metrics at address.
func Scrape(address string) (Samples, error) {
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("lab: got %s from /metrics, want 200", resp.Status)
	}
	samples := Samples{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if at < 0 || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		v, err := strconv.ParseFloat(lines.Text()[at+1:], 64)
		if err != nil {
			return nil, err
		}
		samples[lines.Text()[:at]] = v
	}
	return samples, lines.Err()
}

// Sum adds the series of a metric whose labels hold every given part, such as
// `peer="1"`.
func (s Samples) Sum(metric string, parts ...string) (total float64) {
next:
	for series, v := range s {
		name, labels, _ := strings.Cut(series, "{")
		if name != metric {
			continue
		}
		for _, part := range parts {
			if !strings.Contains(labels, part) {
				continue next
			}
		}
		total += v
	}
	return total
}

// Label returns the values that a label of a metric has, with the sum of each.
func (s Samples) Label(metric, label string, parts ...string) map[string]float64 {
	values := map[string]float64{}
	for series := range s {
		_, labels, _ := strings.Cut(series, "{")
		if _, rest, ok := strings.Cut(labels, label+`="`); ok {
			value := rest[:strings.IndexByte(rest, '"')]
			values[value] = 0
		}
	}
	for value := range values {
		values[value] = s.Sum(metric, append(parts, label+`="`+value+`"`)...)
	}
	return values
}
