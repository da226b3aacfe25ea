RSpec.describe "cargo" do
  it "is listed in the order of loading" do
    boat = Boat.new(10).load("wool", 1).load("tea", 2)
    expect(boat.cargo.map(&:first)).to eq(%w[wool tea])
  end

  xit "is insured" do
    raise "not yet"
  end
end
