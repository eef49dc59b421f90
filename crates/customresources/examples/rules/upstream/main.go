// Measures upstream's validation rules of custom resources for the example `rules`: prints nanoseconds and name of each
// case of cases.json.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// least is the shortest measurement of a case.
const least = 500 * time.Millisecond

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	text, err := os.ReadFile("cases.json")
	check(err)
	var cases []struct {
		Name   string
		Schema apiextensionsv1.JSONSchemaProps
		Object json.RawMessage
	}
	check(json.Unmarshal(text, &cases))
	for _, c := range cases {
		var internal apiextensions.JSONSchemaProps
		check(apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&c.Schema, &internal, nil))
		structural, err := schema.NewStructural(&internal)
		check(err)
		var object map[string]interface{}
		check(utiljson.Unmarshal(c.Object, &object))
		validator := cel.NewValidator(structural, false, celconfig.PerCallLimit)
		for rounds := 1000; ; rounds *= 4 {
			started := time.Now()
			for i := 0; i < rounds; i++ {
				errs, _ := validator.Validate(context.Background(), field.NewPath("root"), structural, object, nil, celconfig.RuntimeCELCostBudget)
				if len(errs) > 0 {
					check(errs.ToAggregate())
				}
			}
			if elapsed := time.Since(started); elapsed >= least {
				fmt.Printf("%d %s\n", elapsed.Nanoseconds()/int64(rounds), c.Name)
				break
			}
		}
	}
}
